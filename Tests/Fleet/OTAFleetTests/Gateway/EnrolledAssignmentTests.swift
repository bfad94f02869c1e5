import OTAFirmware
import OTAFleet
import OTASigning
import Testing

@Suite("Pushes to enrolled devices and to others") struct EnrolledAssignmentTests {
    @Test("a device gets the first stage only after its list was read, and a stranger gets the last stage")
    func stages() throws {
        let fixtures = try Fixtures()
        let list = try #require(EnrolledDevices([fixtures.device]))
        let digest = try #require(list.digest)
        let stage = try #require(Stage(.percent(100)))
        let rollout = try fixtures.rollout(stages: [stage, stage], enrolled: list)
        var assignments = AssignmentList(operators: fixtures.operators, memory: SerialMemory())
        func sign(_ value: some SignedPayload, _ key: PrivateKey) throws -> [UInt8] {
            try SignedRecord(signing: value, with: key).encoded()
        }
        let release = try fixtures.release().value
        _ = try assignments.add(release: sign(release, fixtures.operatorKey), named: release.id)
        _ = try assignments.add(rollout: sign(rollout, fixtures.operatorKey), named: rollout.name)
        func enter(_ stage: Int) throws {
            let text = """
                {"schema":1,"rollout":"t-140","serial":\(stage + 1),"rollout_serial":1,"state":"running","stage":\(stage),\
                "counts":{"done":0,"running":0,"failed":0,"refused":0,"waiting":0}}
                """
            let progress = try sign(RolloutProgress(payload: Array(text.utf8)), fixtures.controllerKey)
            _ = try assignments.add(progress: progress, of: rollout.name, at: .at(0))
        }
        let (own, stranger) = (try fixtures.record(), try fixtures.record("ble-C00000000001"))
        try enter(0)
        #expect(assignments.missingLists == [digest] && assignments.enrolled(by: rollout) == nil)
        #expect(
            assignments.assignment(for: own, at: .at(1)) == nil && !assignments.isEnrolled(own.device, in: rollout.name)
        )
        #expect(
            assignments.assignment(for: try fixtures.record("sim-1"), at: .at(1)) != nil, "another link needs no list")
        assignments.add(list, digest: digest)
        #expect(assignments.missingLists.isEmpty && assignments.enrolled(by: rollout) == list)
        #expect(
            assignments.assignment(for: own, at: .at(1)) != nil && assignments.isEnrolled(own.device, in: rollout.name))
        #expect(
            assignments.assignment(for: stranger, at: .at(1)) == nil
                && !assignments.isEnrolled(stranger.device, in: rollout.name))
        try enter(1)
        #expect(
            assignments.assignment(for: stranger, at: .at(1)) != nil
                && assignments.assignment(for: own, at: .at(1)) != nil)
    }

    @Test("an aborted rollout needs no list")
    func aborted() throws {
        let fixtures = try Fixtures()
        let list = try #require(EnrolledDevices([fixtures.device]))
        let rollout = try fixtures.verified(fixtures.rollout(enrolled: list))
        let record = try fixtures.operators.change(rollout, to: .aborted, with: fixtures.operatorKey)
        var assignments = AssignmentList(operators: fixtures.operators, memory: SerialMemory())
        _ = try assignments.add(rollout: record.encoded(), named: fixtures.name)
        #expect(assignments.missingLists.isEmpty)
    }
}

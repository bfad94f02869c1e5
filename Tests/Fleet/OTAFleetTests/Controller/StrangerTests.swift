import OTAFirmware
import OTAFleet
import OTASigning
import Testing

/// Devices that anyone in radio range can add: any number, with any addresses and any answers.
@Suite("Devices that are not enrolled, and faults of devices") struct StrangerTests {
    /// A controller, 40 enrolled Bluetooth devices, and 40 strangers.
    private final class Rig {
        let fixtures: Fixtures
        let list: EnrolledDevices
        let rollout: Rollout
        var machine: StageMachine
        var genuine: [DeviceRecord]
        var strangers: [DeviceRecord]

        /// The stages 50 % (at least 2 devices) and 100 %; halts over 5 % of at least 4.
        init() throws {
            fixtures = try Fixtures()
            let fixtures = fixtures
            let ids = try (10..<50).map { try #require(DeviceID("ble-AABBCCDDEE\($0)")) }
            list = try #require(EnrolledDevices(ids))
            let stages = [try #require(Stage(.percent(50), minimum: 2)), try #require(Stage(.percent(100)))]
            rollout = try fixtures.rollout(stages: stages, enrolled: list)
            machine = StageMachine(try fixtures.verified(rollout), progress: nil, memory: SerialMemory())
            genuine = try ids.map { try fixtures.record($0.text) }
            strangers = try (10..<50).map { try fixtures.record("ble-C000000000\($0)") }
        }

        /// The indices of the genuine devices of a stage.
        func devices(in stage: Int) -> [Int] {
            genuine.indices.filter { rollout.firstStage(for: genuine[$0].device, groups: [], in: list) == stage }
        }

        func ended(_ record: DeviceRecord, _ change: DeviceChange?) throws -> DeviceRecord {
            try record.changed(.lease(rollout: rollout.name, created: fixtures.created, holder: fixtures.a), at: nil)
                .changed(change ?? .finish(version: nil, by: fixtures.a), at: nil)
        }

        func end(_ indices: some Sequence<Int>, _ reason: Reason? = nil) throws {
            for index in indices {
                genuine[index] = try ended(
                    fixtures.record(genuine[index].device.text), reason.map { .giveUp($0, by: fixtures.a) })
            }
        }

        func endStrangers(_ reason: Reason? = nil) throws {
            strangers = try strangers.map {
                try ended(fixtures.record($0.device.text), reason.map { .giveUp($0, by: fixtures.a) })
            }
        }

        /// Performs a step, and accepts its progress. Returns the progress after the step.
        func step(at time: Double) -> RolloutProgress {
            if let next = machine.step(genuine + strangers, in: list, at: .at(time)) {
                machine.wrote(next, at: .at(time))
            }
            return machine.progress
        }
    }

    @Test(
        "strangers that fail in every way do not halt a rollout, in its first and in its last stage",
        arguments: ["rolled-back", "did-not-return", "protocol-violation", "digest-mismatch", "flash-failed"])
    func failingStrangers(_ code: String) throws {
        let rig = try Rig()
        let reason = try #require(Reason(code))
        try rig.endStrangers(reason)
        let first = rig.step(at: 0)
        #expect(first.state == .running && first.stage == 0 && first.counts.ended == 0)
        #expect(rig.machine.notEnrolled.ended == 40)
        try rig.end(rig.devices(in: 0))
        #expect(rig.step(at: 10).stage == 1)
        try rig.end(rig.genuine.indices)
        let last = rig.step(at: 30)
        #expect(last.state == .running && last.counts.done == 40 && last.counts.ended == 40)
    }

    @Test("strangers that are updated do not pass a stage, whose two enrolled devices are still needed")
    func updatedStrangers() throws {
        let rig = try Rig()
        try rig.endStrangers()
        #expect(rig.step(at: 0).stage == 0 && rig.step(at: 100_000).stage == 0)
        #expect(rig.machine.notEnrolled.done == 40)
        try rig.end(rig.devices(in: 0).prefix(1))
        #expect(rig.step(at: 100_010).stage == 0)
        try rig.end(rig.devices(in: 0).prefix(2))
        #expect(rig.step(at: 100_020).stage == 1)
    }

    @Test("many updated strangers do not hide the failures of enrolled devices")
    func hiddenFailures() throws {
        let rig = try Rig()
        try rig.endStrangers()
        try rig.end(rig.devices(in: 0).prefix(1), .rolledBack)
        try rig.end(rig.devices(in: 0).dropFirst().prefix(3))
        #expect(rig.step(at: 0).state == .halted)
    }

    @Test("strangers that never finish do not keep a rollout from being complete")
    func unfinishedStrangers() throws {
        let rig = try Rig()
        try rig.end(rig.genuine.indices)
        #expect(rig.step(at: 0).stage == 1)
        #expect(rig.machine.notEnrolled.waiting == 40)
        #expect(rig.step(at: 10).state == .running && rig.step(at: 86_410).state == .complete)
    }

    @Test(
        "a fault of 2 enrolled devices is theirs, and the same fault of 3 counts as a failure of the image",
        arguments: ["protocol-violation", "digest-mismatch", "flash-failed"])
    func faults(_ code: String) throws {
        let reason = try #require(Reason(code))
        for (faulty, state, failed) in [(2, RolloutProgress.State.running, 0), (3, .halted, 3)] {
            let rig = try Rig()
            try rig.endStrangers(reason)
            try rig.end(rig.devices(in: 0).prefix(faulty), reason)
            try rig.end(rig.devices(in: 0).dropFirst(faulty).prefix(4 - faulty))
            let progress = rig.step(at: 0)
            #expect(progress.state == state && progress.counts.failed == failed)
            #expect(progress.counts.refused == faulty - failed && progress.counts.ended == 4)
        }
    }

    @Test("three enrolled devices with three different faults do not blame the image")
    func differentFaults() throws {
        let rig = try Rig()
        let canary = rig.devices(in: 0)
        for (index, code) in zip(canary, ["protocol-violation", "digest-mismatch", "flash-failed"]) {
            let reason = try #require(Reason(code))
            try rig.end([index], reason)
        }
        try rig.end(canary.dropFirst(3).prefix(1))
        let progress = rig.step(at: 0)
        #expect(progress.state == .running && progress.counts.refused == 3 && progress.counts.failed == 0)
    }

    @Test("the fault of one device in a stage counts there if earlier stages have the same fault")
    func faultsOverStages() throws {
        let rig = try Rig()
        let (canary, last) = (rig.devices(in: 0), rig.devices(in: 1))
        let reason = try #require(Reason("protocol-violation"))
        try rig.end(canary.prefix(2), reason)
        try rig.end(last.prefix(1), reason)
        let early = DeviceTotals(rig.genuine, of: rig.rollout, in: rig.list, stage: 0)
        #expect(early.all.refused == 2 && early.stage == early.all, "the device of the next stage does not count yet")
        let totals = DeviceTotals(rig.genuine, of: rig.rollout, in: rig.list, stage: 1)
        #expect(
            totals.all.failed == 3 && totals.stage.failed == 1 && totals.all.refused == 0 && totals.stage.refused == 0)
    }
}

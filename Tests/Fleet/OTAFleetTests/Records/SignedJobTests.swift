import OTAFirmware
import OTAFleet
import OTASigning
import Testing

/// A gateway whose credentials are stolen can write each valid record. What it writes must not outrank a signed rollout.
@Suite("Lies in the record of a device") struct SignedJobTests {
    private final class Rig {
        let fixtures: Fixtures
        var list: AssignmentList
        let rollout: Rollout

        init() throws {
            fixtures = try Fixtures()
            list = AssignmentList(operators: fixtures.operators, memory: SerialMemory())
            rollout = try fixtures.rollout(stages: [#require(Stage(.percent(100)))])
            let release = try fixtures.release().value
            _ = try list.add(release: sign(release), named: release.id)
            _ = try list.add(rollout: sign(rollout), named: rollout.name)
            var controller = try StageMachine(fixtures.verified(rollout), progress: nil, memory: SerialMemory())
            let step = controller.step([], in: .none, at: .at(0))
            let progress = try #require(step)
            _ = try list.add(progress: sign(progress, fixtures.controllerKey), of: rollout.name, at: .at(0))
        }

        func sign(_ value: some SignedPayload, _ key: PrivateKey? = nil) throws -> [UInt8] {
            try SignedRecord(signing: value, with: key ?? fixtures.operatorKey).encoded()
        }

        /// The record of the device with these members of a job.
        func record(_ members: String, version: String = "1.3.0") throws -> DeviceRecord {
            try DeviceRecord(
                parsing: Array(
                    """
                    {"schema":1,"device":"\(fixtures.device)","product":"acme-thermostat","version":"\(version)",\
                    "gateway":"evil","instance":"00000000","attempt":1,"beat":2,\(members)}
                    """.utf8))
        }

        func assignment(_ record: DeviceRecord, heard: String? = nil, at time: Double = 1) -> Assignment? {
            list.assignment(for: record, heard: heard.flatMap { SemanticVersion($0) }, at: .at(time))
        }

        /// A machine that hears the device with version 1.3.0, and has read this record at 0 s.
        func machine(_ record: DeviceRecord) -> DeviceMachine {
            var machine = DeviceMachine(device: fixtures.device, holder: fixtures.a, earlierInstances: [])
            machine.hear(product: fixtures.product, version: SemanticVersion("1.3.0"), delay: .zero)
            _ = machine.observe(record, revision: 5, at: .at(0))
            return machine
        }
    }

    private static let zzz = #""rollout":"zzz","rollout_created":"9999-12-31T23:59:59Z""#

    @Test(
        "a job of the year 9999 in a rollout without a signature does not count after 45 s",
        arguments: [
            #""state":"done""#, #""state":"given-up","reason":"rolled-back""#,
            #""state":"waiting","retry_after":2147483647"#, #""state":"waiting","phase":"trial""#, #""state":"idle""#,
            #""state":"running""#,
        ])
    func unsigned(state: String) throws {
        let rig = try Rig()
        let record = try rig.record("\(state),\(Self.zzz)")
        var machine = rig.machine(record)
        let assignment = try #require(rig.assignment(machine.record, heard: "1.3.0"))
        let times = [0, 44.9].map { machine.readiness(for: assignment, at: .at($0)) }
        #expect(times == [.at(.seconds(45)), .at(.seconds(45))])
        let early = machine.start(assignment, at: .at(44.9))
        #expect(early.isEmpty)
        guard case .write(let lease, expecting: 5)? = machine.start(assignment, at: .at(45)).first else {
            Issue.record("no lease")
            return
        }
        #expect(lease.rollout == rig.rollout.name && lease.rolloutCreated == rig.rollout.created)
        #expect(lease.state == .running && lease.attempt == 1 && lease.phase == .connect)
    }

    @Test("a false version in such a record is replaced by the version that the gateway has read from the device")
    func falseVersion() throws {
        let rig = try Rig()
        let record = try rig.record(#""state":"done","# + Self.zzz, version: "9.9.9")
        #expect(rig.assignment(record) == nil, "the version is not below 1.4.0")
        var machine = rig.machine(record)
        let assignment = try #require(rig.assignment(machine.record, heard: machine.heardVersion?.text))
        _ = machine.readiness(for: assignment, at: .at(0))
        guard case .write(let lease, _)? = machine.start(assignment, at: .at(45)).first else {
            Issue.record("no lease")
            return
        }
        #expect(lease.version?.text == "1.3.0")
        let bounded = record.bounded(by: rig.list.job(of: record, at: nil))
        let list = try #require(EnrolledDevices([rig.fixtures.device]))
        let counts = DeviceTotals([bounded], of: rig.rollout, in: list, stage: rig.rollout.stages.count - 1).all
        #expect(counts.waiting == 1, "the rollout is not finished without this device")
    }

    @Test("a done device has the version of the signed release, and is selected by the next rollout")
    func versionOfDone() throws {
        let rig = try Rig()
        let done = try rig.record(
            #""state":"done","rollout":"t-140","rollout_created":"2026-11-22T18:00:00Z""#, version: "9.9.9")
        let job = rig.list.job(of: done, at: nil)
        #expect(job == .signed(created: rig.rollout.created, version: SemanticVersion("1.4.0")))
        #expect(done.bounded(by: job).version?.text == "1.4.0")
        let next = try rig.fixtures.rollout("next", running: "<9.0.0", created: rig.rollout.created.advanced(by: 1))
        _ = try rig.list.add(rollout: rig.sign(next), named: next.name)
        #expect(rig.list.job(of: done, at: nil) == job)
        #expect(next.selection.includes(product: done.product, version: done.bounded(by: job).version, groups: []))
    }

    @Test("a job of a rollout that the store has lost counts where it was accepted, unless it is from the future")
    func lostRollout() throws {
        let rig = try Rig()
        let created = rig.rollout.created
        let record = try rig.record(#""state":"done","rollout":"t-140","rollout_created":"\#(created)""#)
        let list = AssignmentList(operators: rig.fixtures.operators, memory: rig.list.memory)
        #expect(list.job(of: record, at: created) == .unchecked)
        #expect(list.job(of: record, at: created.advanced(by: -86_400)) == .unsigned)
        let fresh = AssignmentList(operators: rig.fixtures.operators, memory: SerialMemory())
        #expect(fresh.job(of: record, at: created) == .unsigned)
    }

    @Test("the time of a job is the time in the signed rollout", arguments: [-1, 0, 1, 1_000_000_000])
    func boundedTime(seconds: Int64) throws {
        let rig = try Rig()
        let claimed = rig.rollout.created.advanced(by: seconds)
        let record = try rig.record(#""state":"done","rollout":"t-140","rollout_created":"\#(claimed)""#)
        let bounded = record.bounded(by: rig.list.job(of: record, at: nil))
        #expect(bounded.rolloutCreated == rig.rollout.created)
        let next = try #require(RolloutName("next"))
        #expect(bounded.mayFollow(next, rig.rollout.created.advanced(by: 1)))
        // The rollout of the record itself does not follow.
        #expect(!bounded.mayFollow(rig.rollout.name, rig.rollout.created) && rig.assignment(record) == nil)
    }

    @Test("a job in a rollout of another product does not count")
    func otherProduct() throws {
        let rig = try Rig()
        let record = try rig.record(#""state":"done","rollout":"t-140","rollout_created":"2026-11-22T18:00:00Z""#)
        #expect(rig.list.job(of: record, at: nil) != .unsigned)
        var other = record
        other.product = ProductName("acme-sensor")
        #expect(rig.list.job(of: other, at: nil) == .unsigned)
    }

    @Test(
        "a rollout in the store that this gateway does not accept counts, except with a time in the future",
        arguments: [(-2, true), (300, true), (301, false), (1_000_000_000, false)] as [(Int64, Bool)])
    func notAccepted(seconds: Int64, counts: Bool) throws {
        let rig = try Rig()
        let other = try rig.fixtures.rollout("zzz", running: nil)
        let name = other.name
        let now = Moment.at(1).wall
        let created = try #require(now).advanced(by: seconds)
        let record = try rig.record(#""state":"done","rollout":"zzz","rollout_created":"\#(created)""#)
        #expect(rig.list.job(of: record, at: now) == .unsigned)
        #expect(throws: FleetError(.untrusted, "")) {
            try rig.list.add(rollout: rig.sign(other, rig.fixtures.strangerKey), named: name)
        }
        #expect(rig.list.job(of: record, at: now) == (counts ? .unchecked : .unsigned))
        // Gateways with different operators must not update a device in turn. A job that is older than the rollout does not exclude it.
        #expect((rig.assignment(record) == nil) == (counts && seconds >= 0))
        rig.list.suspend(except: [rig.rollout.name])
        #expect(rig.list.job(of: record, at: now) == .unsigned)
    }

    @Test("a held device without a signed job is idle after its release")
    func held() throws {
        let rig = try Rig()
        let record = try rig.record(#""state":"held","held_state":"done","# + Self.zzz)
        #expect(rig.machine(record).record.state == .held && rig.assignment(record) != nil)
        let bounded = record.bounded(by: .unsigned)
        #expect(bounded.state == .held && bounded.rollout == nil)
        #expect(try bounded.changed(.unhold, at: nil).state == .idle)
    }

    @Test("a device whose state before the hold was 'running' or 'held' is idle after its release")
    func heldState() throws {
        let rig = try Rig()
        for (state, result) in [("running", "idle"), ("held", "idle"), ("done", "done"), ("waiting", "waiting")] {
            let record = try rig.record(#""state":"held","held_state":"\#(state)""#)
            #expect(try record.changed(.unhold, at: nil).state.rawValue == result)
        }
    }

    @Test(
        "a record at the limit of its numbers stays valid after each change", arguments: [1 << 31 - 2, 1 << 31 - 1])
    func numbers(beat: Int) throws {
        let rig = try Rig()
        let text = #""state":"running","rollout":"t-140","rollout_created":"2026-11-22T18:00:00Z""#
        let record = try rig.record(text.replacing(#""state""#, with: #""x":1,"state""#))
        let start = try String(decoding: record.encoded(), as: UTF8.self)
        let last = try DeviceRecord(parsing: Array(start.replacing(#""beat":2"#, with: #""beat":\#(beat)"#).utf8))
        let next = try last.changed(.abandon(isLast: false), at: nil)
        #expect(next.beat == (beat == 1 << 31 - 2 ? 1 << 31 - 1 : 1))
        #expect(try DeviceRecord(parsing: next.encoded()).beat == next.beat && !next.isSameWrite(as: last))
    }

    @Test("a pause of at most 1 h counts", arguments: [(3599, 3599), (3600, 3600), (3601, 3600), (1 << 31 - 1, 3600)])
    func pause(written: Int, counted: Int) throws {
        #expect(try Rig().record(#""state":"waiting","retry_after":\#(written)"#).retryAfter == counted)
    }
}

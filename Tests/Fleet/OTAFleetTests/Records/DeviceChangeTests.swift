import OTAFirmware
import OTAFleet
import Testing

@Suite("Changes of a device's record") struct DeviceChangeTests {
    /// The changes of the table. `own` is by the holder `a`, `other` by another holder. `older` and `newer` are other rollouts.
    private enum Change: String, CaseIterable {
        case leaseSame, leaseOlder, leaseNewer, takeOver, takeOverOlder, abandon, abandonLast
        case beat, finish, wait, giveUp, otherBeat, otherFinish, otherWait, otherGiveUp, hold, unhold, group
    }

    private static func change(_ change: Change, _ fixtures: Fixtures) throws -> DeviceChange {
        let (a, b) = (fixtures.a, fixtures.b)
        let (older, newer) = (try #require(RolloutName("older")), try #require(RolloutName("newer")))
        return switch change {
        case .leaseSame: .lease(rollout: fixtures.name, created: fixtures.created, holder: b)
        case .leaseOlder: .lease(rollout: older, created: fixtures.created.advanced(by: -1), holder: b)
        case .leaseNewer: .lease(rollout: newer, created: fixtures.created.advanced(by: 1), holder: b)
        case .takeOver: .takeOver(rollout: fixtures.name, created: fixtures.created, holder: b)
        case .takeOverOlder: .takeOver(rollout: older, created: fixtures.created.advanced(by: -1), holder: b)
        case .abandon: .abandon(isLast: false)
        case .abandonLast: .abandon(isLast: true)
        case .beat: .beat(.transfer, offset: 5, total: 9, by: a)
        case .finish: .finish(version: SemanticVersion("1.4.0"), by: a)
        case .wait: .wait(.linkLost, after: 60, by: a)
        case .giveUp: .giveUp(.rolledBack, by: a)
        case .otherBeat: .beat(.transfer, offset: 5, total: 9, by: b)
        case .otherFinish: .finish(version: nil, by: b)
        case .otherWait: .wait(.linkLost, after: 60, by: b)
        case .otherGiveUp: .giveUp(.rolledBack, by: b)
        case .hold: .hold
        case .unhold: .unhold
        case .group: .group([])
        }
    }

    /// The state after each change that is allowed. Every other change is refused. The table is that of the design.
    private static let table: [DeviceRecord.State: [Change: DeviceRecord.State]] = [
        .idle: [.leaseSame: .running, .leaseOlder: .running, .leaseNewer: .running, .hold: .held, .group: .idle],
        .waiting: [.leaseSame: .running, .leaseNewer: .running, .hold: .held, .group: .waiting],
        .done: [.leaseNewer: .running, .hold: .held, .group: .done],
        .givenUp: [.leaseNewer: .running, .hold: .held, .group: .givenUp],
        .held: [.unhold: .done, .group: .held],
        .running: [
            .takeOver: .running, .abandon: .waiting, .abandonLast: .givenUp, .beat: .running, .finish: .done,
            .wait: .waiting, .giveUp: .givenUp, .group: .running,
        ],
    ]

    /// A record in a state. The last job was by `a`, in the rollout of the fixtures, in the second attempt.
    private static func record(in state: DeviceRecord.State, _ fixtures: Fixtures) throws -> DeviceRecord {
        var record = try fixtures.record()
        if state == .idle { return record }
        let lease = DeviceChange.lease(rollout: fixtures.name, created: fixtures.created, holder: fixtures.a)
        record = try record.changed(lease, at: nil)
        record = try record.changed(.wait(.linkLost, after: 0, by: fixtures.a), at: nil).changed(lease, at: nil)
        switch state {
        case .idle, .running: return record
        case .waiting: return try record.changed(change(.wait, fixtures), at: nil)
        case .givenUp: return try record.changed(change(.giveUp, fixtures), at: nil)
        case .done: return try record.changed(change(.finish, fixtures), at: nil)
        case .held: return try record.changed(change(.finish, fixtures), at: nil).changed(.hold, at: nil)
        }
    }

    @Test("only the changes of the table are allowed", arguments: DeviceRecord.State.allCases)
    func transitions(state: DeviceRecord.State) throws {
        let fixtures = try Fixtures()
        let record = try Self.record(in: state, fixtures)
        #expect(record.state == state)
        for change in Change.allCases {
            let next = Result { () throws(FleetError) in
                do { return try record.changed(try Self.change(change, fixtures), at: fixtures.created) } catch {
                    throw error as? FleetError ?? FleetError(.malformed, "\(error)")
                }
            }
            if let expected = Self.table[state]?[change] {
                #expect(try next.get().state == expected, "\(state) \(change)")
                #expect(try DeviceRecord(parsing: next.get().encoded()).encoded() == next.get().encoded())
            } else {
                #expect(throws: FleetError(.staleRecord, ""), "\(state) \(change)") { try next.get() }
            }
        }
    }

    @Test("a further attempt counts in the same rollout, and the first attempt of another rollout is 1")
    func attempts() throws {
        let fixtures = try Fixtures()
        let running = try Self.record(in: .running, fixtures)
        #expect(running.attempt == 2 && running.beat == 1)
        let takenOver = try running.changed(Self.change(.takeOver, fixtures), at: nil)
        #expect(takenOver.attempt == 3 && takenOver.holder == fixtures.b)
        let waiting = try Self.record(in: .waiting, fixtures)
        #expect(waiting.retryAfter == 60 && waiting.reason == .linkLost && waiting.phase == nil)
        #expect(try waiting.changed(Self.change(.leaseNewer, fixtures), at: nil).attempt == 1)
        #expect(try waiting.changed(Self.change(.leaseSame, fixtures), at: nil).retryAfter == nil)
    }

    @Test("a takeover counts an interrupted attempt, except as the first attempt of another rollout")
    func interruptedAttempts() throws {
        let fixtures = try Fixtures()
        let running = try Self.record(in: .running, fixtures)
        #expect(try running.changed(Self.change(.takeOver, fixtures), at: nil).interruptedAttempts == 1)
        let newer = DeviceChange.takeOver(
            rollout: try #require(RolloutName("newer")), created: fixtures.created.advanced(by: 1), holder: fixtures.b)
        let first = try running.changed(newer, at: nil)
        #expect(first.attempt == 1 && first.interruptedAttempts == 0)
    }

    @Test("a device waits at least 0 s and at most 1 h", arguments: [(-1, 0), (0, 0), (3600, 3600), (3601, 3600)])
    func waits(after seconds: Int, retryAfter: Int) throws {
        let fixtures = try Fixtures()
        let running = try Self.record(in: .running, fixtures)
        #expect(
            try running.changed(.wait(.linkLost, after: seconds, by: fixtures.a), at: nil).retryAfter == retryAfter)
    }

    @Test("each write of an attempt has another number, and a push that connects does not end the phase trial")
    func beats() throws {
        let fixtures = try Fixtures()
        let first = try Self.record(in: .running, fixtures)
        let trial = try first.changed(.beat(.trial, offset: 9, total: 9, by: fixtures.a), at: nil)
        let again = try trial.changed(.beat(.connect, offset: nil, total: nil, by: fixtures.a), at: nil)
        #expect(again.phase == .trial && again.offset == 9 && again.beat == 3)
        #expect(again.isSameAttempt(as: first) && !again.isSameWrite(as: first) && !again.isSameWrite(as: trial))
        let takenOver = try first.changed(Self.change(.takeOver, fixtures), at: nil)
        #expect(!takenOver.isSameAttempt(as: first))
        #expect(try trial.changed(Self.change(.beat, fixtures), at: nil).phase == .transfer)
    }

    @Test("the phase trial stays in a waiting record and in the next attempt of its rollout, and in no other record")
    func trial() throws {
        let fixtures = try Fixtures()
        let trial = try Self.record(in: .running, fixtures)
            .changed(.beat(.trial, offset: 9, total: 9, by: fixtures.a), at: nil)
        let waiting = try trial.changed(.wait(.linkLost, after: 60, onTrial: true, by: fixtures.a), at: nil)
        #expect(waiting.isOnTrial && waiting.phase == .trial)
        for change in [Change.abandon, .takeOver, .beat] {
            #expect(try trial.changed(Self.change(change, fixtures), at: nil).isOnTrial == (change != .beat))
        }
        for change in [Change.abandonLast, .wait, .giveUp, .finish] {
            let next = try trial.changed(Self.change(change, fixtures), at: nil)
            #expect(!next.isOnTrial && next.phase == nil, "\(change)")
        }
        #expect(try waiting.changed(Self.change(.leaseSame, fixtures), at: nil).phase == .trial)
        #expect(try waiting.changed(Self.change(.leaseNewer, fixtures), at: nil).phase == .connect)
        let held = try waiting.changed(.hold, at: nil)
        #expect(!held.isOnTrial)
        #expect(try held.changed(.unhold, at: nil).isOnTrial)
    }

    @Test("the pause before the next attempt doubles from 60 s to 1 h")
    func pauses() {
        #expect(
            (0...9).map { DeviceRecord.pause(afterAttempt: $0) } == [
                60, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600,
            ])
        #expect(DeviceRecord.pause(afterAttempt: .max) == 3600)
    }
}

import OTAFirmware
import OTAFleet
import OTASigning
import Testing

@Suite("The machine of a rollout") struct StageMachineTests {
    /// A controller and the records of its devices.
    private final class Rig {
        let fixtures: Fixtures
        var rollout: Verified<Rollout>
        var machine: StageMachine
        var records: [DeviceRecord]
        var memory = SerialMemory()

        /// 100 devices; the stages 10 % (at least 2 devices, 60 s), 50 %, 100 %; halts over 5 % of at least 4.
        init() throws {
            fixtures = try Fixtures()
            let stages = [
                try #require(Stage(.percent(10), minimum: 2, soakSeconds: 60)),
                try #require(Stage(.percent(50), minimum: 2)),
                try #require(Stage(.percent(100))),
            ]
            rollout = try fixtures.verified(fixtures.rollout(stages: stages))
            machine = StageMachine(rollout, progress: nil, memory: memory)
            let fixtures = fixtures
            records = try (0..<100).map { try fixtures.record("sim-\($0)") }
        }

        func devices(in stage: Int) -> [Int] {
            records.indices.filter { rollout.value.firstStage(for: records[$0].device, groups: [], in: .none) == stage }
        }

        /// Ends the attempts of some devices.
        func end(_ indices: some Sequence<Int>, _ change: DeviceChange? = nil) throws {
            for index in indices {
                records[index] = try fixtures.record(records[index].device.text)
                    .changed(.lease(rollout: fixtures.name, created: fixtures.created, holder: fixtures.a), at: nil)
                    .changed(change ?? .finish(version: nil, by: fixtures.a), at: nil)
            }
        }

        /// Performs a step. Writes and returns the progress.
        func step(at time: Double) throws -> RolloutProgress? {
            guard let next = machine.step(records, in: .none, at: .at(time)) else { return nil }
            let verified = try fixtures.verified(next, of: rollout)
            _ = try memory.accept(verified)
            machine.wrote(verified.value, at: .at(time))
            return next
        }

        func change(to state: Rollout.State) throws {
            let record = try fixtures.operators.change(rollout, to: state, with: fixtures.operatorKey)
            rollout = try fixtures.operators.rollout(record.encoded())
            machine.update(rollout)
        }
    }

    @Test("the next stage starts when enough devices of the stage are updated, and the soak time is over")
    func advances() throws {
        let rig = try Rig()
        let first = try #require(try rig.step(at: 0))
        let canary = rig.devices(in: 0)
        #expect(first.serial == 1 && first.stage == 0 && first.counts.waiting == canary.count && canary.count > 2)
        try rig.end(canary.prefix(1))
        #expect(try rig.step(at: 20)?.stage == 0)
        try rig.end(canary.prefix(2))
        #expect(try rig.step(at: 40)?.counts.done == 2)
        #expect(try rig.step(at: 99.9) == nil)
        let second = try #require(try rig.step(at: 100))
        #expect(second.stage == 1 && second.serial == 4)
        #expect(try rig.step(at: 101)?.stage == nil, "the devices of the second stage have not ended")
    }

    @Test("a failure during the soak time starts it again, and a new leader starts it again")
    func soak() throws {
        let rig = try Rig()
        let canary = rig.devices(in: 0)
        try rig.end(canary.prefix(2))
        #expect(try rig.step(at: 0)?.stage == 0)
        try rig.end(canary.prefix(1), .giveUp(.stopped, by: rig.fixtures.a))
        #expect(try rig.step(at: 50)?.counts.refused == 1)
        try rig.end(canary.prefix(2))
        #expect(try rig.step(at: 60)?.stage == 0 && rig.step(at: 119.9)?.stage != 1)
        let stored = try rig.fixtures.verified(rig.machine.progress, of: rig.rollout)
        rig.machine = StageMachine(rig.rollout, progress: stored, memory: rig.memory)
        #expect(try rig.step(at: 121)?.stage == 0 && rig.step(at: 180.9)?.stage != 1)
        #expect(try rig.step(at: 181)?.stage == 1)
    }

    @Test("failures of the image halt the rollout, and refusals and radio trouble do not")
    func halts() throws {
        let rig = try Rig()
        let canary = rig.devices(in: 0)
        #expect(canary.count >= 4)
        try rig.end(canary, .giveUp(.linkLost, by: rig.fixtures.a))
        #expect(try rig.step(at: 0)?.state == .running)
        try rig.end(canary.prefix(3), .giveUp(.rolledBack, by: rig.fixtures.a))
        try rig.end(canary.dropFirst(3), .wait(.linkLost, after: 60, by: rig.fixtures.a))
        #expect(try rig.step(at: 20)?.state == .running, "fewer than 4 have ended")
        try rig.end(canary.prefix(4), .giveUp(.rolledBack, by: rig.fixtures.a))
        let halted = try #require(try rig.step(at: 40))
        #expect(halted.state == .halted && halted.counts.failed == 4)
        try rig.end(canary)
        #expect(try rig.step(at: 200)?.state == .halted, "a halt is final until the operator resumes the rollout")
    }

    @Test("a rollout runs on at the permitted percentage of failures, and halts above it")
    func permittedPercentage() throws {
        for (ended, state) in [(20, RolloutProgress.State.running), (19, .halted)] {
            let rig = try Rig()
            rig.records += try (100..<400).map { try rig.fixtures.record("sim-\($0)") }
            let canary = rig.devices(in: 0)
            #expect(canary.count >= 20)
            // 5 % are permitted.
            try rig.end(canary.prefix(ended - 1))
            try rig.end(canary.dropFirst(ended - 1).prefix(1), .giveUp(.rolledBack, by: rig.fixtures.a))
            let progress = try #require(try rig.step(at: 0))
            #expect(progress.state == state && progress.counts.ended == ended && progress.counts.failed == 1)
        }
    }

    @Test("the next stage starts with exactly the required percentage of updated devices, and not below it")
    func requiredPercentage() throws {
        for (done, stage) in [(19, 1), (18, 0)] {
            let rig = try Rig()
            rig.records += try (100..<400).map { try rig.fixtures.record("sim-\($0)") }
            let canary = rig.devices(in: 0)
            // 95 % are required.
            try rig.end(canary.prefix(done))
            try rig.end(canary.dropFirst(done).prefix(20 - done), .giveUp(.linkLost, by: rig.fixtures.a))
            _ = try rig.step(at: 0)
            #expect(try rig.step(at: 60)?.stage == stage)
        }
    }

    @Test("a rollout without an ended device does not become complete")
    func noDevices() throws {
        let rig = try Rig()
        let stage = try #require(Stage(.percent(100)))
        rig.rollout = try rig.fixtures.verified(rig.fixtures.rollout(stages: [stage]))
        rig.machine = StageMachine(rig.rollout, progress: nil, memory: rig.memory)
        rig.records = []
        for day in 0...3 { #expect(try rig.step(at: 86_400 * Double(day))?.state == .running) }
    }

    @Test("an older version of the rollout does not replace the newer one")
    func olderVersion() throws {
        let rig = try Rig()
        let first = rig.rollout
        try rig.change(to: .paused)
        rig.machine.update(first)
        #expect(rig.machine.rollout.value.state == .paused)
        #expect(try rig.step(at: 0)?.rolloutSerial == 2)
    }

    @Test("many updated devices of the first stages do not hide the failures of the current stage")
    func haltOfOneStage() throws {
        let rig = try Rig()
        try rig.end(rig.devices(in: 0))
        _ = try rig.step(at: 0)
        #expect(try rig.step(at: 60)?.stage == 1)
        try rig.end(rig.devices(in: 1))
        #expect(try rig.step(at: 70)?.stage == 2)
        let last = rig.devices(in: 2)
        try rig.end(last.prefix(1), .giveUp(.didNotReturn, by: rig.fixtures.a))
        try rig.end(last.dropFirst().prefix(3))
        // 1 of 4 in this stage, and less than 5 % of all.
        #expect(rig.devices(in: 0).count + rig.devices(in: 1).count > 20)
        #expect(try rig.step(at: 90)?.state == .halted)
    }

    @Test("the operator resumes a halted rollout with a new serial, and the old failures do not halt it again")
    func resumes() throws {
        let rig = try Rig()
        let canary = rig.devices(in: 0)
        try rig.end(canary.prefix(4), .giveUp(.rolledBack, by: rig.fixtures.a))
        #expect(try rig.step(at: 0)?.state == .halted)
        try rig.change(to: .paused)
        #expect(try rig.step(at: 10)?.state == .halted)
        try rig.change(to: .running)
        let resumed = try #require(try rig.step(at: 20))
        #expect(resumed.state == .running && resumed.rolloutSerial == 3 && resumed.excused?.failed == 4)
        #expect(try RolloutProgress(payload: resumed.payload()) == resumed)
        #expect(try rig.step(at: 100)?.state == .running)
        try rig.end(canary.dropFirst(4), .giveUp(.rolledBack, by: rig.fixtures.a))
        try rig.end(rig.devices(in: 1).prefix(8), .giveUp(.rolledBack, by: rig.fixtures.a))
        let remaining = canary.count - 4
        #expect(try rig.step(at: 200)?.state == (remaining >= 4 ? .halted : .running))
    }

    @Test("failures that the operator excused by a resume, and then held, do not hide as many later failures")
    func holdsAfterResume() throws {
        let rig = try Rig()
        rig.records += try (100..<200).map { try rig.fixtures.record("sim-\($0)") }
        let canary = rig.devices(in: 0)
        let excused = canary.prefix(4)
        try rig.end(excused, .giveUp(.rolledBack, by: rig.fixtures.a))
        #expect(try rig.step(at: 0)?.state == .halted)
        try rig.change(to: .paused)
        try rig.change(to: .running)
        #expect(try rig.step(at: 10)?.excused?.failed == 4)
        for index in excused { rig.records[index] = try rig.records[index].changed(.hold, at: nil) }
        let held = try #require(try rig.step(at: 30))
        #expect(held.state == .running && held.excused?.ended == 0 && held.excused?.failed == 0)
        try rig.end(canary.dropFirst(4).prefix(4), .giveUp(.rolledBack, by: rig.fixtures.a))
        #expect(try rig.step(at: 50)?.state == .halted)
    }

    @Test("after a resume, many updated devices do not hide the failures of a later stage")
    func laterStageAfterResume() throws {
        let rig = try Rig()
        let canary = rig.devices(in: 0)
        try rig.end(canary.prefix(4), .giveUp(.rolledBack, by: rig.fixtures.a))
        #expect(try rig.step(at: 0)?.state == .halted)
        try rig.change(to: .paused)
        try rig.change(to: .running)
        try rig.end(canary)
        #expect(try rig.step(at: 10)?.excused?.stage == 0)
        #expect(try rig.step(at: 20)?.stage != 1 && rig.step(at: 80)?.stage == 1)
        try rig.end(rig.devices(in: 1))
        #expect(try rig.step(at: 90)?.stage == 2)
        let last = rig.devices(in: 2)
        try rig.end(last.prefix(1), .giveUp(.didNotReturn, by: rig.fixtures.a))
        try rig.end(last.dropFirst().prefix(3))
        #expect(try rig.step(at: 110)?.state == .halted)
    }

    @Test("a controller that has lost the progress halts with the step to the stage that failed")
    func lostProgress() throws {
        let rig = try Rig()
        try rig.end(rig.devices(in: 0))
        try rig.end(rig.devices(in: 1))
        let last = rig.devices(in: 2)
        try rig.end(last.prefix(1), .giveUp(.didNotReturn, by: rig.fixtures.a))
        try rig.end(last.dropFirst().prefix(3))
        rig.machine = StageMachine(rig.rollout, progress: nil, memory: rig.memory)
        var states: [Int: RolloutProgress.State] = [:]
        for time in stride(from: 0.0, to: 200, by: 2) {
            guard let progress = try rig.step(at: time) else { continue }
            states[progress.stage] = states[progress.stage] ?? progress.state
        }
        #expect(states[2] == .halted)
    }

    @Test("a paused or aborted rollout does not start the next stage")
    func paused() throws {
        let rig = try Rig()
        try rig.end(rig.devices(in: 0))
        try rig.change(to: .paused)
        #expect(try rig.step(at: 0)?.rolloutSerial == 2)
        #expect(try rig.step(at: 10_000)?.stage == 0)
        try rig.change(to: .running)
        #expect(try rig.step(at: 10_001)?.stage == 0 && rig.step(at: 10_061)?.stage == 1)
    }

    @Test("a pause starts the soak time again")
    func pauseDuringSoak() throws {
        let rig = try Rig()
        try rig.end(rig.devices(in: 0))
        #expect(try rig.step(at: 0)?.stage == 0)
        try rig.change(to: .paused)
        #expect(try rig.step(at: 30)?.stage == 0)
        try rig.change(to: .running)
        #expect(try rig.step(at: 100)?.stage == 0 && rig.step(at: 160)?.stage == 1)
    }

    @Test("a rollout is not complete while the record of an enrolled device cannot be read")
    func unreadable() throws {
        let rig = try Rig()
        try rig.end(rig.records.indices)
        func step(_ time: Int, damaged: [String]) -> RolloutProgress? {
            let moment = Moment(.seconds(time))
            let devices = damaged.compactMap { DeviceID($0) }
            let progress = rig.machine.step(rig.records, damaged: devices, in: .none, at: moment)
            if let progress { rig.machine.wrote(progress, at: moment) }
            return progress
        }
        // A stranger's device is not enrolled, so its record has no effect.
        for minute in 0..<3000 { _ = step(60 * minute, damaged: ["sim-x", "ble-AABBCCDDEEFF"]) }
        #expect(rig.machine.progress.stage == 2)
        #expect(rig.machine.progress.state == .running)
        #expect((rig.machine.counts.done, rig.machine.counts.waiting) == (100, 1))
        _ = step(180_000, damaged: ["ble-AABBCCDDEEFF"])
        #expect(step(180_000 + 86_400, damaged: ["ble-AABBCCDDEEFF"])?.state == .complete)
    }

    @Test(
        "the rollout is complete after 24 h without an unfinished device, and halts if devices that appear later fail")
    func completes() throws {
        let rig = try Rig()
        try rig.end(rig.records.indices)
        for (time, stage) in [(0.0, 0), (60, 1), (61, 2)] { #expect(try rig.step(at: time)?.stage == stage) }
        _ = try rig.step(at: 62)
        #expect(try rig.step(at: 86_461)?.state == .running)
        try rig.end(rig.devices(in: 2).prefix(1), .wait(.linkLost, after: 60, by: rig.fixtures.a))
        #expect(try rig.step(at: 86_472)?.state == .running)
        try rig.end(rig.records.indices)
        #expect(try rig.step(at: 86_500)?.state == .running && rig.step(at: 172_899)?.state == .running)
        #expect(try rig.step(at: 172_900)?.state == .complete)
        rig.records += try (100..<110).map { try rig.fixtures.record("sim-\($0)") }
        #expect(try rig.step(at: 173_000)?.state == .complete)
        try rig.end(100..<110, .giveUp(.rolledBack, by: rig.fixtures.a))
        #expect(try rig.step(at: 173_100)?.state == .halted)
    }

    @Test(
        "the progress is written at once if the stage changes, after 10 s if counts change, and after 60 s in every case"
    )
    func writes() throws {
        let rig = try Rig()
        #expect(try rig.step(at: 0) != nil)
        #expect(try rig.step(at: 59.9) == nil && rig.step(at: 60) != nil)
        try rig.end(rig.devices(in: 0).prefix(1))
        #expect(try rig.step(at: 69.9) == nil && rig.step(at: 70)?.counts.done == 1)
        try rig.change(to: .paused)
        #expect(try rig.step(at: 71)?.rolloutSerial == 2)
    }

    @Test("the progress of another controller is continued, and the serial is never one that was seen before")
    func otherController() throws {
        let rig = try Rig()
        for time in [0.0, 60, 120] { _ = try rig.step(at: time) }
        let stored = try rig.fixtures.verified(rig.machine.progress, of: rig.rollout)
        var other = StageMachine(rig.rollout, progress: nil, memory: SerialMemory())
        other.observe(stored)
        #expect(other.step(rig.records, in: .none, at: .at(200))?.serial == 4)
        // The store has lost the progress.
        var restored = StageMachine(rig.rollout, progress: nil, memory: rig.memory)
        let next = restored.step(rig.records, in: .none, at: .at(200))
        #expect(next?.serial == 4 && next?.stage == 0)
    }

    @Test("the next progress keeps the members that this version does not know")
    func unknownMembers() throws {
        let rig = try Rig()
        let first = try #require(try rig.step(at: 0))
        let text = try String(decoding: first.payload(), as: UTF8.self).replacing(
            #""stage":0"#, with: #""later":[1],"stage":0"#)
        let newer = try RolloutProgress(payload: Array(text.replacing(#""serial":1"#, with: #""serial":2"#).utf8))
        rig.machine.observe(try rig.fixtures.verified(newer, of: rig.rollout))
        let next = try #require(try rig.step(at: 60))
        let written = try String(decoding: next.payload(), as: UTF8.self)
        #expect(next.serial == 3 && written.contains(#""later":[1]"#))
    }

    @Test("only devices of the rollout count, and a record that a gateway wrote for a later stage does not count")
    func totals() throws {
        let rig = try Rig()
        try rig.end(rig.devices(in: 2))
        rig.records[rig.devices(in: 0)[0]].product = ProductName("acme-sensor")
        rig.records[rig.devices(in: 0)[1]] = try rig.fixtures.record("sim-\(rig.devices(in: 0)[1])").changed(
            .hold, at: nil)
        let totals = DeviceTotals(rig.records, of: rig.rollout.value, in: .none, stage: 0)
        #expect(
            totals.all.done == 0 && totals.all.waiting == rig.devices(in: 0).count - 2 && totals.all == totals.stage)
        let all = DeviceTotals(rig.records, of: rig.rollout.value, in: .none, stage: 2)
        #expect(all.all.done == rig.devices(in: 2).count && all.stage.waiting == 0 && all.all.ended == all.all.done)
    }
}

import OTAFirmware
import OTAFleet
import OTASigning
import Testing

@Suite("Rollouts that a gateway follows") struct AssignmentListTests {
    /// A list as an object, because `#expect` cannot call a mutating method of a value.
    private final class Rig {
        let fixtures: Fixtures
        var list: AssignmentList

        init(stages: [Stage]? = nil) throws {
            fixtures = try Fixtures()
            list = AssignmentList(operators: fixtures.operators, memory: SerialMemory())
        }

        func sign(_ value: some SignedPayload, _ key: PrivateKey? = nil) throws -> [UInt8] {
            try SignedRecord(signing: value, with: key ?? fixtures.operatorKey).encoded()
        }

        func add(_ release: FleetRelease) throws -> Bool { try list.add(release: sign(release), named: release.id) }
        func add(_ rollout: Rollout) throws -> Bool { try list.add(rollout: sign(rollout), named: rollout.name) }

        /// Adds the progress of a rollout, with these values of its JSON.
        func progress(
            of rollout: Rollout, serial: Int = 1, rolloutSerial: Int = 1, state: String = "running", stage: Int = 2,
            at time: Double = 0, by key: PrivateKey? = nil
        ) throws -> Bool {
            let text = """
                {"schema":1,"rollout":"\(rollout.name)","serial":\(serial),"rollout_serial":\(rolloutSerial),\
                "state":"\(state)","stage":\(stage),"counts":{"done":0,"running":0,"failed":0,"refused":0,"waiting":0}}
                """
            let record = try sign(RolloutProgress(payload: Array(text.utf8)), key ?? fixtures.controllerKey)
            return try list.add(progress: record, of: rollout.name, at: .at(time))
        }

        func assignment(_ record: DeviceRecord? = nil, at time: Double = 1) throws -> String? {
            list.assignment(for: try record ?? fixtures.record(), at: .at(time))?.rollout.value.name.text
        }
    }

    @Test("a push starts only with a signed release, a signed rollout and a signed progress that admits the device")
    func allRecords() throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        #expect(try rig.progress(of: rollout) == false, "the controllers are not known yet")
        #expect(try rig.add(rollout) && rig.assignment() == nil)
        #expect(try rig.add(rig.fixtures.release().value) && rig.assignment() == nil)
        // The place of the device is 7334 of 10,000.
        #expect(try rig.progress(of: rollout, serial: 1, stage: 1) && rig.assignment() == nil)
        #expect(try rig.progress(of: rollout, serial: 2, stage: 2) && rig.assignment() == "t-140")
        #expect(try !rig.add(rollout) && rig.assignment() == "t-140")
    }

    // Another program may have overwritten the withdrawal of the release.
    @Test("a damaged record of a release stops further pushes until the store has an accepted record again")
    func damagedRelease() throws {
        let rig = try Rig()
        let (rollout, release) = (try rig.fixtures.rollout(), try rig.fixtures.release().value)
        #expect(try rig.add(rollout) && rig.add(release) && rig.progress(of: rollout) && rig.assignment() == "t-140")
        #expect(throws: FleetError.self) { try rig.list.add(release: [1], named: release.id) }
        #expect(try rig.assignment() == nil)
        #expect(try !rig.add(release) && rig.assignment() == "t-140")
    }

    @Test("a rollout that a complete list does not contain starts no push, but confirms, until the store has it again")
    func lostRollout() throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        #expect(try rig.add(rig.fixtures.release().value) && rig.add(rollout) && rig.progress(of: rollout))
        rig.list.suspend(except: [rollout.name])
        #expect(try rig.assignment() == "t-140" && rig.list.isCurrent(rollout.name))
        rig.list.suspend(except: [])
        #expect(try rig.assignment() == nil && !rig.list.isCurrent(rollout.name))
        let trial = try rig.fixtures.record()
            .changed(.lease(rollout: rollout.name, created: rollout.created, holder: rig.fixtures.a), at: nil)
            .changed(.beat(.trial, offset: nil, total: nil, by: rig.fixtures.a), at: nil)
        #expect(rig.list.assignment(for: trial, at: .at(1))?.onlyConfirms == true)
        #expect(try !rig.add(rollout) && rig.assignment() == "t-140")
    }

    @Test("a record of a stranger or with a lower serial is refused, and a stranger's rollout stops further pushes")
    func refusals() throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        let change = try rig.fixtures.operators.change(
            rig.fixtures.verified(rollout), to: .paused, with: rig.fixtures.operatorKey)
        #expect(try rig.add(rig.fixtures.release().value) && rig.add(rollout) && rig.progress(of: rollout, serial: 5))
        #expect(throws: FleetError(.untrusted, "")) {
            try rig.list.add(rollout: rig.sign(rollout, rig.fixtures.strangerKey), named: rollout.name)
        }
        #expect(throws: FleetError(.untrusted, "")) {
            try rig.progress(of: rollout, serial: 6, by: rig.fixtures.operatorKey)
        }
        #expect(throws: FleetError(.rollbackSeen, "")) { try rig.progress(of: rollout, serial: 4) }
        #expect(throws: FleetError(.untrusted, "")) {
            try rig.list.add(rollout: rig.sign(rollout), named: #require(RolloutName("other")))
        }
        #expect(try rig.assignment() == nil)
        #expect(try !rig.add(rollout) && rig.assignment() == "t-140")
        #expect(throws: FleetError(.malformed, "")) { try rig.list.add(rollout: [0x7b, 0x7d], named: rollout.name) }
        #expect(try rig.assignment() == nil && !rig.add(rollout) && rig.assignment() == "t-140")
        let paused = try change.encoded()
        #expect(try rig.list.add(rollout: paused, named: rollout.name) && rig.assignment() == nil)
        #expect(throws: FleetError(.rollbackSeen, "")) { try rig.add(rollout) }
        #expect(try rig.assignment() == nil && rig.list.progress(of: rollout.name)?.value.serial == 5)
    }

    @Test(
        "no push starts while the rollout is halted, or its progress is for a newer version; a complete rollout admits devices"
    )
    func progressStates() throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        #expect(try rig.add(rig.fixtures.release().value) && rig.add(rollout))
        #expect(try rig.progress(of: rollout, serial: 1, state: "halted") && rig.assignment() == nil)
        #expect(try rig.progress(of: rollout, serial: 2, state: "complete") && rig.assignment() != nil)
        #expect(try rig.progress(of: rollout, serial: 3, rolloutSerial: 2) && rig.assignment() == nil)
        #expect(try rig.progress(of: rollout, serial: 4) && rig.assignment() == "t-140")
    }

    @Test("no push starts 10 minutes after the last new progress")
    func deadMan() throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        #expect(try rig.add(rig.fixtures.release().value) && rig.add(rollout) && rig.progress(of: rollout, at: 100))
        #expect(try rig.assignment(at: 699) == "t-140" && rig.assignment(at: 700) == nil)
        #expect(
            try !rig.progress(of: rollout, at: 650) && rig.assignment(at: 700) == nil, "the same serial proves nothing")
        #expect(try rig.progress(of: rollout, serial: 2, at: 650) && rig.assignment(at: 700) == "t-140")
    }

    @Test(
        "the wall clock must be set, and between the creation and the expiry of the rollout, with 5 minutes of tolerance"
    )
    func clock() throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        #expect(try rig.add(rig.fixtures.release().value) && rig.add(rollout) && rig.progress(of: rollout))
        func refusal(_ wall: Timestamp?) throws -> FleetError? {
            var refusal: FleetError?
            let assignment = rig.list.assignment(for: try rig.fixtures.record(), at: Moment(.at(1), wall: wall)) {
                refusal = $0
            }
            #expect((assignment == nil) == (refusal != nil))
            return refusal
        }
        #expect(
            try refusal(nil)?.code == .clockNotSet && refusal(rollout.created.advanced(by: -301))?.code == .clockNotSet)
        #expect(
            try refusal(rollout.created.advanced(by: -300)) == nil && refusal(rollout.expires.advanced(by: 300)) == nil)
        #expect(try refusal(rollout.expires.advanced(by: 301))?.code == .expired)
    }

    @Test("of two rollouts the newer one counts, and a device never returns to an older rollout")
    func newest() throws {
        let rig = try Rig()
        let (old, new) = (
            try rig.fixtures.rollout("old", running: nil),
            try rig.fixtures.rollout("new", running: nil, created: rig.fixtures.created.advanced(by: 60))
        )
        #expect(
            try rig.add(rig.fixtures.release().value) && rig.add(old) && rig.progress(of: old)
                && rig.assignment() == "old")
        #expect(try rig.add(new) && rig.assignment() == "old", "the newer rollout does not admit the device yet")
        #expect(try rig.progress(of: new, stage: 2) && rig.assignment() == "new")
        let done = try rig.fixtures.record()
            .changed(.lease(rollout: new.name, created: new.created, holder: rig.fixtures.a), at: nil)
            .changed(.finish(version: nil, by: rig.fixtures.a), at: nil)
        #expect(try rig.assignment(done) == nil)
    }

    @Test("a push of a newer rollout is not taken over for an older rollout")
    func newerRunning() throws {
        let rig = try Rig()
        let old = try rig.fixtures.rollout("old", running: nil)
        let newer = try rig.fixtures.rollout("newer", running: nil, created: old.created.advanced(by: 1))
        #expect(
            try rig.add(rig.fixtures.release().value) && rig.add(old) && rig.progress(of: old)
                && rig.assignment() == "old")
        let running = try rig.fixtures.record().changed(
            .lease(rollout: newer.name, created: newer.created, holder: rig.fixtures.a), at: nil)
        #expect(try rig.add(newer) && rig.assignment(running) == nil)
    }

    @Test(
        "a device on trial has a job also in an aborted rollout, and a push before the trial is interrupted by an abort"
    )
    func trial() throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        #expect(try rig.add(rig.fixtures.release().value) && rig.add(rollout) && rig.progress(of: rollout))
        let running = try rig.fixtures.record()
            .changed(.lease(rollout: rollout.name, created: rollout.created, holder: rig.fixtures.a), at: nil)
        let trial = try running.changed(.beat(.trial, offset: nil, total: nil, by: rig.fixtures.a), at: nil)
        #expect(try rig.assignment(running) == "t-140" && !rig.list.mustInterrupt(running, isOnTrial: false))
        let aborted = try rig.fixtures.operators.change(
            rig.fixtures.verified(rollout), to: .aborted, with: rig.fixtures.operatorKey)
        #expect(try rig.list.add(rollout: aborted.encoded(), named: rollout.name))
        #expect(try rig.assignment(running) == nil && rig.assignment(trial) == "t-140")
        // The machine can know that a device whose record is on trial is not on trial any more.
        #expect(rig.list.mustInterrupt(running, isOnTrial: false) && rig.list.mustInterrupt(trial, isOnTrial: false))
        #expect(!rig.list.mustInterrupt(trial, isOnTrial: true))
    }

    @Test("a job of a rollout that is not in force may only confirm the image on trial", arguments: [true, false])
    func onlyConfirms(isWaiting: Bool) throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        #expect(try rig.add(rig.fixtures.release().value) && rig.add(rollout) && rig.progress(of: rollout))
        var trial = try rig.fixtures.record()
            .changed(.lease(rollout: rollout.name, created: rollout.created, holder: rig.fixtures.a), at: nil)
            .changed(.beat(.trial, offset: nil, total: nil, by: rig.fixtures.a), at: nil)
        if isWaiting {
            trial = try trial.changed(.wait(.linkLost, after: 60, onTrial: true, by: rig.fixtures.a), at: nil)
        }
        #expect(rig.list.assignment(for: trial, at: .at(1))?.onlyConfirms == false)
        #expect(rig.list.assignment(for: trial, at: Moment(.at(1), wall: nil))?.onlyConfirms == true)
        #expect(try rig.progress(of: rollout, serial: 2, state: "halted"))
        #expect(rig.list.assignment(for: trial, at: .at(1))?.onlyConfirms == true)
        let paused = try rig.fixtures.operators.change(
            rig.fixtures.verified(rollout), to: .paused, with: rig.fixtures.operatorKey)
        #expect(try rig.list.add(rollout: paused.encoded(), named: rollout.name))
        #expect(rig.list.assignment(for: trial, at: .at(1))?.onlyConfirms == true)
    }

    @Test("the rollout that started a trial has the job, even if a newer rollout admits the device or no clock is set")
    func trialBeforeNewerRollout() throws {
        let rig = try Rig()
        let (old, new) = (
            try rig.fixtures.rollout("old", running: nil),
            try rig.fixtures.rollout("new", running: nil, created: rig.fixtures.created.advanced(by: 60))
        )
        #expect(try rig.add(rig.fixtures.release().value) && rig.add(old) && rig.progress(of: old))
        let trial = try rig.fixtures.record()
            .changed(.lease(rollout: old.name, created: old.created, holder: rig.fixtures.a), at: nil)
            .changed(.beat(.trial, offset: nil, total: nil, by: rig.fixtures.a), at: nil)
        #expect(
            try rig.add(new) && rig.progress(of: new) && rig.assignment() == "new" && rig.assignment(trial) == "old")
        let unset = rig.list.assignment(for: trial, at: Moment(.at(1), wall: nil)) { Issue.record("refused: \($0)") }
        #expect(unset?.rollout.value.name == old.name)
    }

    @Test("a withdrawn release, and a release with a wrong bundle, start no push")
    func badRelease() throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        let release = try rig.fixtures.release()
        #expect(
            try rig.add(release.value) && rig.add(rollout) && rig.progress(of: rollout) && rig.assignment() == "t-140")
        let copy = rig.list
        rig.list.refuse(release)
        #expect(try rig.assignment() == nil)
        rig.list = copy
        let withdrawn = try rig.fixtures.operators.withdraw(release, with: rig.fixtures.operatorKey).encoded()
        #expect(try rig.list.add(release: withdrawn, named: release.value.id) && rig.assignment() == nil)
    }

    @Test(
        "a device of another product or version is not selected, and a device in its next attempt is selected by any version"
    )
    func selection() throws {
        let rig = try Rig()
        let rollout = try rig.fixtures.rollout()
        #expect(try rig.add(rig.fixtures.release().value) && rig.add(rollout) && rig.progress(of: rollout))
        var record = try rig.fixtures.record()
        record.version = SemanticVersion("1.4.0")
        #expect(try rig.assignment(record) == nil)
        record.version = SemanticVersion("1.3.0")
        record.product = ProductName("acme-sensor")
        #expect(try rig.assignment(record) == nil)
        var waiting = try rig.fixtures.record()
            .changed(.lease(rollout: rollout.name, created: rollout.created, holder: rig.fixtures.a), at: nil)
            .changed(.wait(.linkLost, after: 60, by: rig.fixtures.a), at: nil)
        waiting.version = SemanticVersion("1.4.0")
        #expect(try rig.assignment(waiting) == "t-140")
    }
}

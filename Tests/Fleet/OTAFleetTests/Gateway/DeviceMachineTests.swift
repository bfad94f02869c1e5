import OTAFirmware
import OTAFleet
import OTASigning
import Testing

@Suite("The machine of a device") struct DeviceMachineTests {
    /// A machine of the gateway `a` and the jobs of its assignment list, as an object, because `#expect` cannot call a mutating method.
    final class Rig {
        let fixtures: Fixtures
        let assignment: Assignment
        var machine: DeviceMachine

        init(attempts: Int = 3) throws {
            fixtures = try Fixtures()
            assignment = try fixtures.assignment(attempts: attempts)
            machine = DeviceMachine(device: fixtures.device, holder: fixtures.a, earlierInstances: [GatewayInstance(7)])
            machine.hear(product: fixtures.product, version: SemanticVersion("1.3.0"), delay: .at(0.5))
        }

        func observe(_ record: DeviceRecord?, _ revision: UInt64, at time: Double) -> [DeviceMachine.Action] {
            machine.observe(record, revision: revision, at: .at(time))
        }
        /// Writes an action, and returns the written record.
        func write(_ actions: [DeviceMachine.Action], at time: Double) throws -> DeviceRecord {
            guard let action = actions.last, case .write(let record, let revision) = action else {
                throw FleetError(.malformed, "no write")
            }
            _ = wrote(.written(revision: revision + 1), at: time)
            return record
        }
        func ready(at time: Double) -> DeviceMachine.Readiness { machine.readiness(for: assignment, at: .at(time)) }
        func start(at time: Double) -> [DeviceMachine.Action] { machine.start(assignment, at: .at(time)) }
        func wrote(_ result: DeviceMachine.WriteResult, at time: Double) -> [DeviceMachine.Action] {
            machine.wrote(result, at: .at(time))
        }
        func readBack(_ record: DeviceRecord?, _ revision: UInt64, at time: Double) -> [DeviceMachine.Action] {
            machine.readBack(record, revision: revision, at: .at(time))
        }
        func tick(at time: Double) -> [DeviceMachine.Action] { machine.tick(at: .at(time)) }
        func progress(_ phase: DeviceRecord.Phase, at time: Double) -> [DeviceMachine.Action] {
            machine.progress(phase, offset: 5, total: 9, at: .at(time))
        }
        func end(_ end: PushEnd, at time: Double) -> [DeviceMachine.Action] { machine.end(end, at: .at(time)) }
        func stop(at time: Double) -> [DeviceMachine.Action] { machine.stop(.aborted, at: .at(time)) }

        /// Brings the machine to a push with the lease of 1 s, at revision 1. Returns the record of the lease.
        func push() throws -> DeviceRecord {
            #expect(observe(nil, 0, at: 0) == [])
            #expect(ready(at: 0) == .at(.at(0.5)) && ready(at: 1) == .now)
            let record = try #require(start(at: 1).written)
            #expect(wrote(.written(revision: 1), at: 1.1) == [.push(assignment)])
            return record
        }
    }

    @Test("a push takes the lease, beats every 10 s, reports the trial at once, and writes the result")
    func whole() throws {
        let rig = try Rig()
        let lease = try rig.push()
        #expect(lease.state == .running && lease.holder == rig.fixtures.a && lease.attempt == 1 && lease.beat == 1)
        let transfer = try #require(rig.progress(.transfer, at: 2).written)
        #expect(transfer.phase == .transfer && transfer.offset == 5 && transfer.beat == 2)
        #expect(rig.wrote(.written(revision: 2), at: 2.1) == [])
        #expect(rig.progress(.transfer, at: 11.9) == [])
        let beat = try #require(rig.tick(at: 12).written)
        #expect(beat.beat == 3 && rig.wrote(.written(revision: 3), at: 12.1) == [])
        let trial = try #require(rig.progress(.trial, at: 15).written)
        #expect(trial.phase == .trial && rig.wrote(.written(revision: 4), at: 15.1) == [])
        let done = try #require(rig.end(.updated, at: 18).written)
        #expect(done.state == .done && done.version == SemanticVersion("1.4.0"))
        #expect(rig.wrote(.written(revision: 5), at: 18.1) == [.ended(.updated, stored: true)])
        #expect(!rig.machine.isBusy && rig.machine.revision == 5 && rig.ready(at: 100) == .now)
    }

    @Test("the push is interrupted 20 s after the last acknowledged beat was sent, and its result is written later")
    func stopsWithoutBeats() throws {
        let rig = try Rig()
        _ = try rig.push()
        #expect(rig.machine.deadline == .at(6.1))
        #expect(rig.tick(at: 11).written?.beat == 2)
        #expect(rig.wrote(.unknown, at: 16) == [])
        #expect(rig.tick(at: 18) == [.read])
        rig.machine.readFailed(at: .at(20))
        #expect(rig.machine.deadline == .at(21))
        #expect(rig.tick(at: 20.9) == [] && rig.tick(at: 21) == [.interrupt])
        #expect(rig.end(.retry(.linkLost), at: 22) == [])
        #expect(rig.tick(at: 23) == [.read])
        let old = rig.machine.record
        let waiting = try #require(rig.readBack(old, 1, at: 24).written)
        #expect(waiting.state == .waiting && waiting.reason == .leaseLost && waiting.retryAfter == 60)
        #expect(rig.wrote(.written(revision: 2), at: 24.1) == [.ended(.retry(.leaseLost), stored: true)])
    }

    @Test("a push after APPLY is never interrupted", arguments: ["lease", "abort", "takeover"])
    func neverStopsOnTrial(cause: String) throws {
        let rig = try Rig()
        let lease = try rig.push()
        #expect(rig.progress(.trial, at: 2).written != nil && rig.wrote(.unknown, at: 7) == [])
        switch cause {
        case "lease": #expect(rig.tick(at: 25) == [.read] && rig.tick(at: 60) == [])
        case "abort": #expect(rig.stop(at: 8) == [])
        default:
            #expect(rig.tick(at: 9) == [.read])
            let other = try lease.changed(
                .takeOver(rollout: rig.fixtures.name, created: rig.fixtures.created, holder: rig.fixtures.b), at: nil)
            #expect(rig.readBack(other, 9, at: 9.1) == [])
            #expect(rig.end(.updated, at: 12) == [.ended(.updated, stored: false)])
        }
    }

    @Test("after a lost acknowledgement, the machine reads the record and continues from its own write")
    func lostAcknowledgement() throws {
        let rig = try Rig()
        _ = rig.observe(nil, 0, at: 0)
        _ = rig.ready(at: 0)
        let lease = try #require(rig.start(at: 1).written)
        #expect(rig.wrote(.unknown, at: 6) == [] && rig.machine.deadline == .at(8))
        #expect(rig.tick(at: 7) == [] && rig.tick(at: 8) == [.read])
        // No push before the answer.
        #expect(!rig.machine.isPushing)
        #expect(rig.readBack(lease, 1, at: 8.1) == [.push(rig.assignment)])
    }

    @Test("a conflict is read back, because the own write can be its cause")
    func conflictWithItself() throws {
        let rig = try Rig()
        _ = try rig.push()
        let beat = try #require(rig.tick(at: 11).written)
        #expect(rig.wrote(.conflict, at: 11.1) == [.read])
        #expect(rig.readBack(beat, 2, at: 11.2) == [] && rig.machine.revision == 2)
        // The beat counts from the time at which it was sent.
        #expect(rig.tick(at: 20.9) == [] && rig.tick(at: 21).written?.beat == 3)
    }

    @Test("a lease whose acknowledgement arrives after 20 s starts no push")
    func lateAcknowledgement() throws {
        let rig = try Rig()
        _ = rig.observe(nil, 0, at: 0)
        _ = rig.ready(at: 0)
        #expect(rig.start(at: 1).written != nil)
        let waiting = try #require(rig.wrote(.written(revision: 1), at: 21).written)
        #expect(waiting.state == .waiting && waiting.reason == .leaseLost)
    }

    @Test("a gateway that loses the race for the lease starts no push")
    func lostRace() throws {
        let rig = try Rig()
        _ = rig.observe(nil, 0, at: 0)
        _ = rig.ready(at: 0)
        let own = try #require(rig.start(at: 1).written)
        #expect(rig.wrote(.conflict, at: 1.1) == [.read])
        let other = try rig.fixtures.record().changed(
            .lease(rollout: rig.fixtures.name, created: rig.fixtures.created, holder: rig.fixtures.b), at: nil)
        #expect(!other.isSameWrite(as: own))
        #expect(rig.readBack(other, 1, at: 1.2) == [.ended(nil, stored: false)])
        #expect(!rig.machine.isBusy && rig.ready(at: 2) == .at(.at(46.7)))
    }

    @Test("another gateway's takeover interrupts the push, and its result is not overwritten")
    func takenOver() throws {
        let rig = try Rig()
        let lease = try rig.push()
        let other = try lease.changed(
            .takeOver(rollout: rig.fixtures.name, created: rig.fixtures.created, holder: rig.fixtures.b), at: nil)
        #expect(rig.observe(other, 2, at: 50) == [.interrupt])
        #expect(rig.end(.retry(.linkLost), at: 51) == [.ended(.retry(.leaseLost), stored: false)])
        #expect(rig.machine.record.holder == rig.fixtures.b)
    }

    @Test("a store that has lost the record interrupts the push")
    func lostRecord() throws {
        let rig = try Rig()
        _ = try rig.push()
        #expect(rig.tick(at: 11).written != nil && rig.wrote(.conflict, at: 11.1) == [.read])
        #expect(rig.readBack(nil, 0, at: 11.2) == [.interrupt])
    }

    @Test(
        "the record of a gone gateway is taken over after 45 s, also of a foreign instance with the same name, and of an own earlier instance at once"
    )
    func takeover() throws {
        let rig = try Rig()
        let foreign = try rig.fixtures.record().changed(
            .lease(rollout: rig.fixtures.name, created: rig.fixtures.created, holder: rig.fixtures.b), at: nil)
        _ = rig.observe(foreign, 5, at: 10)
        _ = rig.observe(foreign, 5, at: 30)
        #expect(rig.ready(at: 55.4) == .at(.at(55.5)) && rig.ready(at: 55.5) == .now)
        let record = try #require(rig.start(at: 56).written)
        #expect(record.attempt == 2 && record.holder == rig.fixtures.a && rig.machine.isBusy)

        for (instance, time) in [(7, 10), (9, 55.5)] as [(UInt32, Double)] {
            let own = try Rig()
            let earlier = Holder(gateway: own.fixtures.a.gateway, instance: GatewayInstance(instance))
            let running = try own.fixtures.record().changed(
                .lease(rollout: own.fixtures.name, created: own.fixtures.created, holder: earlier), at: nil)
            _ = own.observe(running, 5, at: 10)
            #expect(own.ready(at: 10) == (instance == 7 ? .now : .at(.at(time))) && own.ready(at: time) == .now)
        }
    }

    @Test("without a job for it, the record of a gone gateway becomes waiting, and given up if no attempt is left")
    func abandon() throws {
        for (attempts, state) in [(3, DeviceRecord.State.waiting), (1, .givenUp)] {
            let rig = try Rig(attempts: attempts)
            let (name, created, holder) = (rig.fixtures.name, rig.fixtures.created, rig.fixtures.b)
            var foreign = try rig.fixtures.record().changed(
                .lease(rollout: name, created: created, holder: holder), at: nil)
            // Gone gateways do not use up the attempts of a device, but ten times as many attempts are the maximum.
            for _ in 1..<10 {
                foreign = try foreign.changed(.takeOver(rollout: name, created: created, holder: holder), at: nil)
            }
            _ = rig.observe(foreign, 5, at: 0)
            let assignment = attempts == 1 ? rig.assignment : nil
            _ = rig.machine.readiness(for: assignment, at: .at(46))
            let actions = rig.machine.start(assignment, at: .at(46))
            #expect(actions.written?.state == state && actions.written?.reason == .holderGone && !rig.machine.isBusy)
        }
    }

    @Test("outages do not use up the attempts of a device")
    func outages() throws {
        let rig = try Rig(attempts: 2)
        _ = rig.observe(nil, 0, at: 0)
        var (time, revision, states) = (0.0, UInt64(0), [DeviceRecord.State]())
        for end in [Reason.leaseLost, .linkLost, .stopped, .leaseLost, .linkLost] {
            time += 5_000
            _ = rig.ready(at: time)
            #expect(rig.start(at: time + 1).written?.attempt == Int(revision / 2) + 1)
            #expect(rig.wrote(.written(revision: revision + 1), at: time + 1) == [.push(rig.assignment)])
            let result = try #require(rig.end(.retry(end), at: time + 2).written)
            states.append(result.state)
            _ = rig.wrote(.written(revision: revision + 2), at: time + 3)
            revision += 2
        }
        #expect(states == [.waiting, .waiting, .waiting, .waiting, .givenUp])
        #expect(rig.machine.record.attempt == 5 && rig.machine.record.interruptedAttempts == 3)
        #expect(try DeviceRecord(parsing: rig.machine.record.encoded()).interruptedAttempts == 3)
    }

    @Test(
        "an end of a push gives the next state",
        arguments: [
            (PushEnd.retry(.linkLost), 3, DeviceRecord.State.waiting, "link-lost"),
            (.failed(.rolledBack), 3, .givenUp, "rolled-back"),
            (.failed(.didNotReturn), 3, .givenUp, "did-not-return"),
            (.refused(.stopped), 3, .givenUp, "gateway-stopped"),
        ])
    func ends(end: PushEnd, attempts: Int, state: DeviceRecord.State, reason: String) throws {
        let rig = try Rig(attempts: attempts)
        _ = try rig.push()
        _ = rig.progress(.transfer, at: 2)
        _ = rig.wrote(.written(revision: 2), at: 2)
        _ = rig.progress(.trial, at: 3)
        _ = rig.wrote(.written(revision: 3), at: 3)
        let record = try #require(rig.end(end, at: 5).written)
        #expect(record.state == state && record.reason?.text == reason)
    }

    @Test("a gateway that was paused during the trial does not blame the image", arguments: [9.9, 10.0])
    func paused(pause: Double) throws {
        let rig = try Rig()
        _ = try rig.push()
        _ = rig.progress(.transfer, at: 2)
        _ = rig.wrote(.written(revision: 2), at: 2)
        _ = rig.progress(.trial, at: 3)
        _ = rig.wrote(.written(revision: 3), at: 3)
        let record = try #require(rig.end(.failed(.rolledBack), at: 3 + pause).written)
        #expect(record.state == (pause < 10 ? .givenUp : .waiting))
        #expect(record.reason == (pause < 10 ? .rolledBack : .trialUnattended))
    }

    @Test("a gateway that joins a trial does not blame the image if the trial ends")
    func joinedTrial() throws {
        let rig = try Rig()
        _ = try rig.push()
        _ = rig.progress(.trial, at: 3)
        _ = rig.wrote(.written(revision: 2), at: 3)
        let record = try #require(rig.end(.failed(.rolledBack), at: 5).written)
        #expect(record.state == .waiting && record.reason == .trialUnattended)
    }

    @Test("a waiting device starts again after its pause, and never after its last attempt")
    func waiting() throws {
        let rig = try Rig(attempts: 2)
        let lease = DeviceChange.lease(
            rollout: rig.fixtures.name, created: rig.fixtures.created, holder: rig.fixtures.b)
        let wait = DeviceChange.wait(.linkLost, after: 60, by: rig.fixtures.b)
        let first = try rig.fixtures.record().changed(lease, at: nil).changed(wait, at: nil)
        _ = rig.observe(first, 5, at: 10)
        #expect(rig.ready(at: 11) == .at(.at(70.5)) && rig.ready(at: 71) == .now)
        let second = try first.changed(lease, at: nil).changed(wait, at: nil)
        _ = rig.observe(second, 6, at: 80)
        #expect(rig.ready(at: 10_000) == .no)
    }

    @Test("an attempt that ends on trial without a result leaves 'trial' in the record, until a push sees its end")
    func endsOnTrial() throws {
        let rig = try Rig()
        _ = try rig.push()
        _ = try rig.write(rig.progress(.transfer, at: 2), at: 2)
        _ = try rig.write(rig.progress(.trial, at: 3), at: 3)
        let first = try rig.write(rig.end(.retry(.linkLost), at: 4), at: 4)
        #expect(first.state == .waiting && first.phase == .trial)
        #expect(rig.ready(at: 5) == .at(.at(64.5)))
        // The next attempt does not reach the device, so its record keeps the phase.
        let lease = try rig.write(rig.start(at: 65), at: 65)
        #expect(lease.attempt == 2 && lease.phase == .trial)
        #expect(try rig.write(rig.tick(at: 75), at: 75).phase == .trial)
        #expect(try rig.write(rig.end(.retry(.linkLost), at: 76), at: 76).phase == .trial)
        // The third attempt finds the old image.
        _ = rig.ready(at: 77)
        _ = try rig.write(rig.start(at: 300), at: 300)
        #expect(try rig.write(rig.progress(.transfer, at: 301), at: 301).phase == .transfer)
        #expect(try rig.write(rig.end(.retry(.linkLost), at: 302), at: 302).state == .givenUp)
    }

    @Test("a device on trial gets as many further attempts, and is given up after them")
    func attemptsOnTrial() throws {
        let rig = try Rig(attempts: 1)
        _ = try rig.push()
        _ = try rig.write(rig.progress(.transfer, at: 2), at: 2)
        _ = try rig.write(rig.progress(.trial, at: 3), at: 3)
        #expect(try rig.write(rig.end(.retry(.linkLost), at: 4), at: 4).state == .waiting)
        #expect(rig.ready(at: 5) == .at(.at(64.5)))
        _ = try rig.write(rig.start(at: 65), at: 65)
        let last = try rig.write(rig.end(.retry(.linkLost), at: 66), at: 66)
        #expect(last.state == .givenUp && last.reason == .linkLost && last.phase == nil && last.attempt == 2)
    }

    @Test(
        "a push that sees another image ends the trial in the record",
        arguments: [
            (PushEnd.failed(.rolledBack), "trial-unattended", false), (.retry(.notInTrial), "not-in-trial", false),
            (.failed(.didNotReturn), "trial-unattended", true),
        ])
    func endOfTrial(end: PushEnd, reason: String, isOnTrial: Bool) throws {
        let rig = try Rig(attempts: 2)
        _ = try rig.push()
        _ = try rig.write(rig.progress(.trial, at: 3), at: 3)
        let record = try rig.write(rig.end(end, at: 4), at: 4)
        #expect(record.state == .waiting && record.reason?.text == reason && record.isOnTrial == isOnTrial)
    }

    @Test("a device that is held, not heard, or not read from the store yet is not started")
    func notReady() throws {
        let rig = try Rig()
        #expect(rig.ready(at: 100) == .no)
        _ = rig.observe(try rig.fixtures.record().changed(.hold, at: nil), 1, at: 0)
        #expect(rig.ready(at: 100) == .no && rig.start(at: 100) == [])
        _ = rig.observe(try rig.fixtures.record().changed(.hold, at: nil).changed(.unhold, at: nil), 2, at: 101)
        #expect(rig.ready(at: 102) == .now)
        rig.machine.lose()
        #expect(rig.ready(at: 103) == .no)
    }

    @Test("an older revision of a watch that lags is ignored")
    func lag() throws {
        let rig = try Rig()
        let lease = try rig.push()
        #expect(rig.tick(at: 11).written?.beat == 2 && rig.wrote(.written(revision: 2), at: 11.1) == [])
        #expect(rig.observe(lease, 1, at: 12) == [] && rig.machine.revision == 2 && rig.machine.record.beat == 2)
    }
}

extension [DeviceMachine.Action] {
    /// The record of the only action, a write.
    var written: DeviceRecord? {
        guard count == 1, case .write(let record, _) = first else { return nil }
        return record
    }
}

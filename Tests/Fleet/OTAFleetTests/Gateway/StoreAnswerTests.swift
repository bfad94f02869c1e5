import OTAFirmware
import OTAFleet
import Testing

@Suite("Late and damaged answers of the store") struct StoreAnswerTests {
    private typealias Rig = DeviceMachineTests.Rig

    @Test("a change by an operator that arrives while a write is under way is not lost")
    func changeDuringWrite() throws {
        let rig = try Rig()
        _ = try rig.push()
        let beat = try #require(rig.tick(at: 11).written)
        let group = try #require(GroupName("lab"))
        #expect(rig.observe(try beat.changed(.group([group]), at: nil), 3, at: 11.1) == [])
        #expect(rig.wrote(.written(revision: 2), at: 12) == [])
        #expect(rig.machine.record.groups == [group] && rig.machine.revision == 3 && rig.machine.isPushing)
        let done = try #require(rig.end(.updated, at: 13).written)
        #expect(done.groups == [group])
    }

    @Test("a record that cannot be read ends an attempt without a lease, and interrupts a push")
    func damagedRecord() throws {
        let waiting = try Rig()
        _ = waiting.observe(nil, 0, at: 0)
        _ = waiting.ready(at: 0)
        #expect(waiting.start(at: 1).written != nil && waiting.wrote(.conflict, at: 1.1) == [.read])
        #expect(waiting.machine.readDamaged(at: .at(1.2)) == [.ended(nil, stored: false)] && !waiting.machine.isBusy)
        let pushing = try Rig()
        _ = try pushing.push()
        #expect(pushing.tick(at: 11).written != nil && pushing.wrote(.conflict, at: 11.1) == [.read])
        #expect(pushing.machine.readDamaged(at: .at(11.2)) == [.interrupt])
        #expect(pushing.end(.retry(.linkLost), at: 12) == [.ended(.retry(.leaseLost), stored: false)])
    }

    @Test("a stored beat of an earlier phase is not taken for the beat of the trial")
    func earlierPhase() throws {
        let rig = try Rig()
        let lease = try rig.push()
        let transfer = try #require(rig.progress(.transfer, at: 2).written)
        #expect(rig.wrote(.unknown, at: 7) == [] && rig.progress(.trial, at: 8) == [] && rig.tick(at: 9) == [.read])
        let trial = try #require(rig.readBack(lease, 1, at: 9.1).written)
        #expect(trial.phase == .trial && trial.beat == transfer.beat)
        // The write of the transfer arrives late, before that of the trial.
        #expect(rig.wrote(.conflict, at: 9.2) == [.read])
        let again = try #require(rig.readBack(transfer, 2, at: 9.3).written)
        #expect(again.phase == .trial && again.beat == transfer.beat + 1)
    }
}

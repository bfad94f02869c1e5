import OTAFirmware
import OTAFleet
import OTASigning
import Testing

/// `device release` replaces a damaged record after it was unchanged for `LeaseWatch.takeoverAge`.
@Suite("A device's record that is overwritten and replaced during a push") struct ReplacedRecordTests {
    private static func machine(_ holder: Holder, _ fixtures: Fixtures) -> DeviceMachine {
        var machine = DeviceMachine(device: fixtures.device, holder: holder, earlierInstances: [])
        machine.hear(product: fixtures.product, version: SemanticVersion("1.3.0"), delay: .zero)
        return machine
    }

    @Test("the holder stops before the record is replaced, and the next gateway starts after it")
    func onePush() throws {
        let fixtures = try Fixtures()
        let assignment = try fixtures.assignment()
        var first = Self.machine(fixtures.a, fixtures)
        _ = first.observe(nil, revision: 0, at: .at(0))
        _ = first.readiness(for: assignment, at: .at(0))
        _ = first.start(assignment, at: .at(1))
        let started = first.wrote(.written(revision: 1), at: .at(1))
        #expect(started == [.push(assignment)])
        // Another program overwrites the record at 10.9 s: revision 2. The beat at 11 s fails, and the record cannot be parsed.
        var stopped: Double?
        var time = 10.9
        while stopped == nil, time < 120 {
            time += 0.1
            for action in first.tick(at: .at(time)) {
                switch action {
                case .write: #expect(first.wrote(.conflict, at: .at(time)) == [.read])
                case .read: break
                case .interrupt: stopped = time
                default: Issue.record("\(action) at \(time)")
                }
            }
            if first.isBusy { first.readFailed(at: .at(time)) }
        }
        let end = try #require(stopped)
        #expect(end < 10.9 + 45, "the holder stops before the record is replaced")
        // The record is replaced at 56 s: revision 3. The next gateway takes the lease at once.
        let replaced = DeviceRecord(device: fixtures.device)
        var second = Self.machine(fixtures.b, fixtures)
        _ = second.observe(replaced, revision: 3, at: .at(56))
        #expect(second.readiness(for: assignment, at: .at(56)) == .now)
        let lease = second.start(assignment, at: .at(56))
        guard case .write(_, expecting: 3)? = lease.first else {
            Issue.record("\(lease)")
            return
        }
        // The first gateway does not write its result.
        _ = first.end(.retry(.linkLost), at: .at(57))
        let last = first.readBack(replaced, revision: 3, at: .at(58))
        #expect(last == [.ended(.retry(.leaseLost), stored: false)])
    }
}

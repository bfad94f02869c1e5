import OTAFleet
import OTASigning
import Testing

@Suite("Leases") struct LeaseTests {
    @Test("the holder stops 20 s after it sent the last acknowledged beat, not after it received the acknowledgement")
    func stop() {
        var lease = Lease(sent: .at(100))
        #expect(lease.nextBeat == .at(110) && lease.stopTime == .at(120))
        lease.send(at: .at(110))
        #expect(lease.nextBeat == .at(120) && lease.stopTime == .at(120))
        lease.acknowledge(sent: .at(110))
        #expect(lease.stopTime == .at(130))
        lease.acknowledge(sent: .at(105))
        #expect(lease.stopTime == .at(130))
    }

    @Test("another gateway takes over after it has seen the same revision for 45 s")
    func takeover() {
        var watch = LeaseWatch(revision: 7, at: .at(0))
        #expect(watch.takeoverTime == .at(45))
        watch.see(revision: 7, at: .at(40))
        #expect(watch.takeoverTime == .at(45))
        watch.see(revision: 8, at: .at(44))
        #expect(watch.takeoverTime == .at(89) && watch.revision == 8 && watch.age(at: .at(50)) == .at(6))
    }

    @Test(
        "a gateway waits 50 ms for each dB below -40 dBm, and a random part of 50 ms",
        arguments: [(-30, 0, 0), (-40, 0, 0), (-41, 0, 50), (-80, 0, 2000), (-80, 1, 2050), (-200, 0, 4500)])
    func contention(rssi: Int, jitter: Int, milliseconds: Int) {
        #expect(Contention.delay(rssi: rssi, jitter: Double(jitter)) == .milliseconds(milliseconds))
        #expect(
            Contention.delay(rssi: nil, jitter: 0) == .zero
                && Contention.delay(rssi: .min, jitter: 5) == .milliseconds(4550))
    }

    @Test("the record of a leader keeps unknown members, and a beat is another write of the same leader")
    func leader() throws {
        let key = try Fixtures().controllerKey.publicKey.id
        let text = #"{"schema":1,"controller":"\#(key)","instance":"00000007","beat":3,"later":[1]}"#
        let record = try LeaderRecord(parsing: Array(text.utf8))
        #expect(try String(decoding: record.encoded(), as: UTF8.self) == text)
        #expect(
            record.controller == key && record.isSameWrite(as: record) && !record.isSameWrite(as: record.nextBeat()))
        #expect(
            LeaderRecord(controller: key, instance: GatewayInstance(7)).nextBeat().nextBeat().isSameWrite(as: record))
        #expect(throws: FleetError(.malformed, "")) { try LeaderRecord(parsing: Array("{}".utf8)) }
    }
}

import COTADevice
import Testing

@Suite("Several connections to the device core") struct OwnershipTests {
    private func twoConnections(_ state: ota_state) -> Bench {
        let bench = Bench()
        bench.bring(to: state)
        bench.connect(2)
        return bench
    }

    private let requests: [(ota_opcode, [UInt8])] = [
        (OTA_BEGIN, Bench.beginArguments(OTA_OBJECT_ENVELOPE, BenchRelease().envelope)), (OTA_SYNC, [0, 0]),
        (OTA_FINISH, []), (OTA_APPLY, [0]), (OTA_CONFIRM, []), (OTA_DISCARD, []), (OTA_DISCARD, [1, 2, 3]),
    ]

    @Test(
        "requests of another connection are answered with busy, and its reads succeed",
        arguments: [OTA_STATE_ENVELOPE, OTA_STATE_ACCEPTED, OTA_STATE_IMAGE, OTA_STATE_VERIFIED])
    func anotherIsBusy(_ state: ota_state) {
        let bench = twoConnections(state)
        let position = bench.progress?.position
        for (opcode, arguments) in requests { #expect(bench.request(opcode, arguments, by: 2) == OTA_BUSY) }
        #expect(bench.request(99, by: 2) == [4])
        #expect(bench.request(OTA_IDENTIFY, [3], by: 2) == OTA_OK)
        bench.write(data: little(position?.next ?? 0) + [1, 2, 3], by: 2)
        // Reads are permitted.
        #expect(bench.read(OTA_VERSION, by: 2) == Array("1.0.0".utf8))
        #expect(bench.read(OTA_PROGRESS, by: 2)?.first == UInt8(state.rawValue))
        #expect(bench.read(OTA_INFO, by: 2) != nil)
        #expect(bench.progress?.position == position)
        #expect(bench.heard(OTA_PROGRESS, by: 2).isEmpty)
    }

    @Test(
        "Data from a connection that does not own the update is ignored, even with the expected sequence",
        arguments: [OTA_STATE_ENVELOPE, OTA_STATE_IMAGE])
    func dataFromAnother(_ state: ota_state) throws {
        let bench = twoConnections(state)
        let before = bench.progress?.position
        let expected = try #require(bench.read(OTA_PROGRESS, by: 2).flatMap { Position($0[2...]) })
        bench.write(data: little(expected.next) + [1, 2, 3], by: 2)
        #expect(bench.progress?.position == before)
        #expect(bench.read(OTA_PROGRESS, by: 2).flatMap { Position($0[2...]) } == expected)
        // It does not restart the time of silence of the owner.
        bench.pass(29_999)
        bench.write(data: little(expected.next) + [1, 2, 3], by: 2)
        bench.pass(1)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_OK)
    }

    @Test("no connection owns the update before an accepted BEGIN")
    func nobodyOwnsBeforeABegin() {
        let bench = twoConnections(OTA_STATE_IDLE)
        #expect(bench.request(OTA_BEGIN, [1], by: 1) == OTA_BAD_ARGUMENT)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_OK)
        #expect(bench.submit(BenchRelease().envelope, by: 2) == OTA_OK)
        #expect(bench.request(OTA_DISCARD, by: 1) == OTA_BUSY)
    }

    @Test("the end of the owner's connection releases the update, and the bytes stay held")
    func theEndOfTheConnectionEndsIt() {
        let bench = twoConnections(OTA_STATE_IMAGE)
        bench.disconnect(1)
        #expect(bench.state == OTA_STATE_IDLE)
        #expect(bench.submit(BenchRelease().envelope, by: 2) == OTA_OK)
        // The bytes of the first connection are still held. The sequences belong to the second connection.
        let position = bench.begin(OTA_OBJECT_IMAGE, BenchRelease().image, from: .max, by: 2)
        #expect(position?.offset == 242)
        #expect(position?.next == UInt16(0x2001))
    }

    @Test("the end of another connection does not change the update")
    func anotherConnectionsEndDoesNot() {
        let bench = twoConnections(OTA_STATE_IMAGE)
        let position = bench.progress?.position
        bench.disconnect(2)
        #expect(bench.state == OTA_STATE_IMAGE)
        #expect(bench.progress?.position == position)
    }

    @Test("after 30 s of silence another connection may take over the update")
    func silence() {
        let bench = twoConnections(OTA_STATE_IMAGE)
        #expect(bench.settle() == 30_000)
        bench.pass(29_999)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_BUSY)
        #expect(bench.settle() == 1)
        bench.pass(1)
        #expect(bench.settle() == UInt32.max)
        // The owner loses the update only by a request of another connection.
        #expect(bench.state == OTA_STATE_IMAGE)
        #expect(bench.request(OTA_BEGIN, requests[0].1, by: 2) == OTA_OK)
        #expect(bench.state == OTA_STATE_ENVELOPE)
        #expect(bench.heard(OTA_PROGRESS, by: 1).count == 1)
        #expect(bench.request(OTA_SYNC, [0, 0], by: 1) == OTA_BUSY)
    }

    /// For the previous owner the state changed without a request.
    @Test("the previous owner receives a Progress when it loses the update")
    func theOldOwnerIsTold() {
        let bench = twoConnections(OTA_STATE_IMAGE)
        bench.pass(30_000)
        #expect(bench.request(OTA_SYNC, [0, 0], by: 2) == OTA_BAD_STATE)
        #expect(bench.state == OTA_STATE_IDLE)
        #expect(bench.heard(OTA_PROGRESS, by: 1).map { Array($0.prefix(2)) } == [[0, 0]])
    }

    @Test("a write of the owner restarts the time of silence", arguments: [true, false])
    func anythingWrittenBreaksTheSilence(_ isData: Bool) {
        let bench = twoConnections(OTA_STATE_IMAGE)
        bench.pass(29_000)
        if isData { bench.write(data: [1, 2, 3]) } else { bench.request(OTA_IDENTIFY, [1]) }
        bench.pass(29_999)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_BUSY)
        bench.pass(1)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_OK)
    }

    @Test("an owner that writes after a long silence keeps the update")
    func anOwnerThatSpeaksAgainKeepsIt() {
        let bench = twoConnections(OTA_STATE_IMAGE)
        bench.pass(100_000)
        #expect(bench.sync(bench.progress?.position?.next ?? 0) != nil)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_BUSY)
    }

    @Test("an owner does not become silent because the clock is set back by 1 ms")
    func clockStepBack() {
        let bench = twoConnections(OTA_STATE_IMAGE)
        bench.write(data: little(bench.progress?.position?.next ?? 0) + [1])
        bench.pass(.max)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_BUSY)
        bench.pass(30_000)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_BUSY)
        bench.pass(1)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_OK)
    }

    @Test("a silent owner stays silent although the clock wraps")
    func silenceOverTheClocksWrap() {
        let bench = twoConnections(OTA_STATE_IMAGE)
        bench.pass(40_000)
        bench.pass(.max - 39_000)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_OK)
    }

    /// The host waits for the answer during this time.
    @Test("the time of a long request does not count as silence")
    func workIsNotSilence() throws {
        let bench = twoConnections(OTA_STATE_IMAGE)
        bench.send(BenchRelease().image, at: try #require(bench.progress?.position))
        ota_device_write_control(bench.device, 1, [3, 1], 2, bench.now)
        _ = ota_device_poll(bench.device, bench.now)
        bench.now &+= 40_000
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_BUSY)
        #expect(bench.state == OTA_STATE_VERIFIED)
        bench.pass(29_999)
        #expect(bench.request(OTA_DISCARD, by: 2) == OTA_BUSY)
    }

    @Test("a fifth connection is refused until another one ends")
    func connectionsAreCounted() {
        let bench = Bench()
        bench.boot()
        for connection in UInt16(1)...4 { #expect(ota_device_connected(bench.device, connection, bench.now)) }
        #expect(!ota_device_connected(bench.device, 5, bench.now))
        #expect(bench.read(OTA_VERSION, by: 5) == nil)
        #expect(bench.write(control: [7, 1, 1], by: 5) == OTA_ATT_INSUFFICIENT_RESOURCES)
        bench.write(data: [0, 0, 1], by: 5)
        bench.disconnect(5)
        bench.disconnect(3)
        #expect(ota_device_connected(bench.device, 5, bench.now))
        #expect(bench.read(OTA_VERSION, by: 5) != nil)
    }

    @Test("a handle that connects again without a disconnection is a new connection")
    func aHandleAgain() {
        let bench = twoConnections(OTA_STATE_IMAGE)
        bench.connect(1)
        #expect(bench.state == OTA_STATE_IDLE)
        #expect(bench.progress?.position?.next == 0)
    }

    @Test("the begun callback runs at the first BEGIN of each connection")
    func theFirstBeginAsksForAFastLink() {
        let bench = twoConnections(OTA_STATE_VERIFIED)
        #expect(bench.begun == [1])
        bench.disconnect(1)
        bench.submit(BenchRelease().envelope, by: 2)
        bench.submit(BenchRelease().envelope, by: 2)
        #expect(bench.begun == [1, 2])
    }
}

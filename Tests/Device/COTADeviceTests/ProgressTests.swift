import COTADevice
import Testing

@Suite("Notifications of the device core") struct ProgressTests {
    private let release = BenchRelease(image: BenchRelease.image(count: 8000))

    private func open(window: UInt16) throws -> (Bench, Position) {
        var settings = Settings()
        settings.window = window
        let bench = Bench(settings)
        bench.bring(to: OTA_STATE_ACCEPTED, release)
        return (bench, try #require(bench.begin(OTA_OBJECT_IMAGE, release.image)))
    }

    @Test(
        "Progress is notified every quarter of the window",
        arguments: [(1, 1), (3, 1), (4, 1), (7, 1), (8, 2), (64, 16), (67, 16), (2047, 511)] as [(UInt16, Int)])
    func cadence(_ window: UInt16, _ chunks: Int) throws {
        let (bench, position) = try open(window: window)
        bench.send(release.image, at: position, upTo: 2 * chunks + chunks / 2, chunk: 1)
        let reported = bench.heard(OTA_PROGRESS)
        #expect(reported.count == (2 * chunks + chunks / 2) / chunks)
        for (i, value) in reported.enumerated() {
            let offset = (i + 1) * chunks
            #expect(value.starts(with: [3, 0]))
            #expect(
                Position(value.dropFirst(2))
                    == Position(
                        next: position.next &+ UInt16(offset), offset: offset,
                        crc: Crypto.crc32(release.image.prefix(offset))))
        }
    }

    /// The rewind itself sends a Progress.
    @Test("a rewind restarts the count of chunks for the next Progress")
    func aRewindBeginsTheCountAnew() throws {
        let (bench, position) = try open(window: 16)
        bench.send(release.image, at: position, upTo: 3, chunk: 1)
        bench.write(data: little(position.next &+ 9) + [1])
        #expect(bench.heard(OTA_PROGRESS).count == 1)
        let rewound = try #require(bench.progress?.position)
        bench.send(release.image, at: rewound, upTo: 6, chunk: 1)
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
        bench.send(release.image, at: try #require(bench.progress?.position), upTo: 7, chunk: 1)
        #expect(bench.heard(OTA_PROGRESS).count == 1)
    }

    @Test("without a subscription no Progress is sent or kept")
    func nothingIsToldWithoutASubscription() throws {
        let (bench, position) = try open(window: 4)
        ota_device_subscribed(bench.device, 1, OTA_PROGRESS, false, bench.now)
        let next = bench.send(release.image, at: position, upTo: 20, chunk: 1)
        bench.write(data: little(next &+ 3) + [1])
        #expect(bench.notifications.isEmpty)
        ota_device_subscribed(bench.device, 1, OTA_PROGRESS, true, bench.now)
        bench.pass(1000)
        #expect(bench.notifications.isEmpty)
    }

    @Test("an answer waits for a buffer and is sent before Progress")
    func anAnswerWaits() throws {
        let (bench, position) = try open(window: 4)
        bench.buffers = 0
        bench.send(release.image, at: position, upTo: 5, chunk: 1)
        #expect(bench.write(control: [2, 9] + little(position.next &+ 5)) == OTA_ATT_OK)
        #expect(bench.notifications.isEmpty)
        // The core requests the next poll after 10 ms, each time.
        for _ in 0..<5 {
            #expect(bench.settle() == 10)
            bench.now &+= 10
        }
        bench.buffers = 1
        bench.settle()
        let answered = Position(next: position.next &+ 5, offset: 5, crc: Crypto.crc32(release.image.prefix(5)))
        let answer = bench.notifications.map(\.bytes)
        #expect(answer.count == 1)
        #expect(answer.first?.starts(with: [0x82, 9, 0]) == true)
        #expect(answer.first.map { Position($0.dropFirst(3)) } == answered)
        bench.notifications = []
        // The newest Progress follows, once.
        bench.buffers = .max
        bench.settle()
        #expect(bench.notifications.map(\.bytes) == [[3, 0] + (bench.read(OTA_PROGRESS) ?? []).dropFirst(2)])
        #expect(bench.settle() > 10)
    }

    @Test("only the newest Progress waits for a buffer")
    func onlyTheNewestProgressWaits() throws {
        let (bench, position) = try open(window: 4)
        bench.buffers = 0
        let next = bench.send(release.image, at: position, upTo: 10, chunk: 1)
        bench.write(data: little(next &+ 1) + [1])
        bench.send(release.image, at: try #require(bench.progress?.position), upTo: 30, chunk: 1)
        bench.buffers = .max
        bench.pass(10)
        let newest = Position(next: next &+ 4096 &+ 20, offset: 30, crc: Crypto.crc32(release.image.prefix(30)))
        #expect(bench.heard(OTA_PROGRESS).map { Position($0.dropFirst(2)) } == [newest])
    }

    /// The refused request has no effect.
    @Test("a request is refused with an ATT error while the last answer waits")
    func oneAnswerWaitsAtATime() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        bench.buffers = 0
        #expect(bench.write(control: [7, 1, 5]) == OTA_ATT_OK)
        #expect(bench.write(control: [7, 2, 6]) == OTA_ATT_INSUFFICIENT_RESOURCES)
        bench.buffers = 1
        // The stack has a buffer again. The old answer is sent first, then the new request is handled.
        #expect(bench.write(control: [7, 3, 7]) == OTA_ATT_OK)
        #expect(bench.identified == [5, 7])
        bench.buffers = .max
        bench.settle()
        #expect(bench.heard(OTA_CONTROL) == [[0x87, 1, 0], [0x87, 3, 0]])
    }

    /// A long request is answered when it is finished and there is space for its answer.
    @Test("other requests are answered with busy during a long request")
    func busyWhileARequestIsOpen() throws {
        let (bench, position) = try open(window: 64)
        bench.send(release.image, at: position)
        bench.notifications = []
        func write(_ bytes: [UInt8]) {
            ota_device_write_control(bench.device, 1, bytes, UInt16(bytes.count), bench.now)
        }
        write([3, 1])
        write([2, 2, 0, 0])
        write([6, 3])
        write([0x55, 4])
        write([7, 5, 1])
        #expect(bench.heard(OTA_CONTROL) == [[0x82, 2, 4], [0x86, 3, 4], [0xD5, 4, 4], [0x87, 5, 0]])
        bench.buffers = 0
        write([2, 6, 0, 0])
        bench.settle()
        // The answer "busy" waits for a buffer, and FINISH waits for the space of the answer.
        #expect(bench.state == OTA_STATE_IMAGE)
        bench.buffers = .max
        bench.settle()
        #expect(bench.heard(OTA_CONTROL) == [[0x82, 6, 4], [0x83, 1, 0]])
        #expect(bench.state == OTA_STATE_VERIFIED)
    }

    /// The radio can be served between two polls.
    @Test("FINISH reads one page in each poll")
    func finishReadsInSteps() throws {
        let (bench, position) = try open(window: 64)
        bench.send(release.image, at: position)
        ota_device_write_control(bench.device, 1, [3, 1], 2, bench.now)
        var polls = 0
        while bench.state == OTA_STATE_IMAGE && polls < 1000 {
            polls += 1
            _ = ota_device_poll(bench.device, bench.now)
        }
        #expect(polls == (8000 + 255) / 256)
    }

    @Test("each connection has its own waiting answer")
    func anothersAnswerWaits() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        bench.connect(2)
        bench.buffers = 0
        bench.write(control: [7, 1, 5], by: 1)
        bench.write(control: [7, 2, 6], by: 2)
        bench.buffers = 1
        #expect(bench.settle() == 10)
        bench.buffers = 1
        #expect(bench.settle() == UInt32.max)
        #expect(bench.heard(OTA_CONTROL, by: 1) == [[0x87, 1, 0]])
        #expect(bench.heard(OTA_CONTROL, by: 2) == [[0x87, 2, 0]])
    }

    @Test("an answer is discarded when the connection unsubscribes")
    func anAnswerNobodyCanHearIsDropped() {
        let bench = Bench()
        bench.bring(to: OTA_STATE_IDLE)
        bench.buffers = 0
        bench.write(control: [7, 1, 5])
        ota_device_subscribed(bench.device, 1, OTA_CONTROL, false, bench.now)
        bench.buffers = .max
        #expect(bench.settle() == UInt32.max)
        #expect(bench.notifications.isEmpty)
    }
}

import COTADevice
import Testing

/// Sequences count modulo 65536.
@Suite("Sequences of Data in the device core") struct SequenceTests {
    /// Makes a device in the state *image* that has received the first chunk of 242 bytes.
    private func open(_ size: Int = 4000, window: UInt16 = 2047) throws -> (Bench, BenchRelease, Position) {
        var settings = Settings()
        settings.window = window
        let bench = Bench(settings)
        let release = BenchRelease(image: BenchRelease.image(count: size))
        bench.bring(to: OTA_STATE_IMAGE, release)
        return (bench, release, try #require(bench.progress?.position))
    }

    @Test("a sequence up to 2047 ahead rewinds to the offset of the device", arguments: [1, 2, 2046, 2047] as [UInt16])
    func ahead(_ distance: UInt16) throws {
        let (bench, release, position) = try open()
        bench.write(data: little(position.next &+ distance) + release.image[300..<310])
        let rewound = Position(next: position.next &+ 4096, offset: 242, crc: position.crc)
        #expect(bench.heard(OTA_PROGRESS).map { Position($0.dropFirst(2)) } == [rewound])
    }

    @Test(
        "a sequence more than 2047 ahead is ignored",
        arguments: [2048, 2049, 4096, 32767, 32768, 61440, 65534, 65535] as [UInt16])
    func stale(_ distance: UInt16) throws {
        let (bench, release, position) = try open()
        bench.write(data: little(position.next &+ distance) + release.image[242..<310])
        #expect(bench.progress?.position == position)
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
    }

    /// After the rewind the chunks that were in flight have stale sequences.
    @Test("chunks after a gap cause one rewind, and a second gap causes a second")
    func aGapIsToldOnce() throws {
        let (bench, release, position) = try open()
        for ahead in UInt16(1)...50 { bench.write(data: little(position.next &+ ahead) + release.image[0..<100]) }
        #expect(bench.heard(OTA_PROGRESS).count == 1)
        let rewound = try #require(bench.progress?.position)
        #expect(rewound.next == position.next &+ 4096)
        bench.write(data: little(rewound.next &+ 1) + release.image[0..<100])
        #expect(bench.heard(OTA_PROGRESS).count == 1)
        #expect(bench.progress?.position?.next == position.next &+ 8192)
        bench.send(release.image, at: try #require(bench.progress?.position))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("a chunk after the end of the object is not stored, and rewinds")
    func bytesThatDoNotFitRewind() throws {
        let (bench, release, position) = try open(600)
        let sequence = bench.send(release.image, at: position, upTo: 600)
        bench.write(data: little(sequence) + [1])
        #expect(
            bench.heard(OTA_PROGRESS).map { Position($0.dropFirst(2)) }
                == [Position(next: sequence &+ 4096, offset: 600, crc: Crypto.crc32(release.image))])
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("a chunk that exceeds the object is not stored in part")
    func bytesThatFitInPartAreNotTakenInPart() throws {
        let (bench, release, position) = try open(400)
        bench.write(data: little(position.next) + [UInt8](repeating: 9, count: 159))
        #expect(bench.progress?.position == Position(next: position.next &+ 4096, offset: 242, crc: position.crc))
        bench.send(release.image, at: try #require(bench.progress?.position))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("Data values that are too short or too long are ignored")
    func tooShortAndTooLongValuesAreDropped() throws {
        let (bench, release, position) = try open()
        bench.write(data: [])
        bench.write(data: [UInt8(position.next & 0xFF)])
        bench.write(data: little(position.next))
        bench.write(data: little(position.next &+ 1))
        bench.write(data: little(position.next) + release.image[242..<242 + 243])
        #expect(bench.progress?.position == position)
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
        bench.write(data: little(position.next) + release.image[242..<242 + 242])
        #expect(bench.progress?.position?.offset == 484)
    }

    @Test("an image in chunks of one byte is verified")
    func byteByByte() throws {
        let (bench, release, position) = try open(600)
        bench.send(release.image, at: position, chunk: 1)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    /// 70,000 chunks: the sequence wraps once.
    @Test("the sequence wraps at 65536, also with a gap at the wrap")
    func theWrap() throws {
        var settings = Settings()
        settings.largestImage = 70000
        settings.slotSize = 70144
        settings.window = 2047
        let bench = Bench(settings)
        let release = BenchRelease(image: BenchRelease.image(count: 70000))
        bench.bring(to: OTA_STATE_ACCEPTED, release)
        var position = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image))
        var gaps = 0
        while position.offset < release.image.count {
            if position.next == .max || position.next == 1 {
                gaps += 1
                let next = position.next
                ota_device_write_data(bench.device, 1, little(next &+ 1) + [0xBA], 3, bench.now)
                position.next = next &+ 4096
                #expect(bench.progress?.position?.next == position.next)
            }
            ota_device_write_data(
                bench.device, 1, little(position.next) + [release.image[position.offset]], 3, bench.now)
            position.next &+= 1
            position.offset += 1
        }
        bench.settle()
        // The sequence passed 65535 and 1. A rewind at 65535 continues at 4095.
        #expect(gaps == 1)
        #expect(
            bench.progress?.position
                == Position(
                    next: position.next, offset: 70000, crc: Crypto.crc32(release.image)))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("SYNC returns the position, and rewinds if chunks are missing")
    func syncIsAFlush() throws {
        let (bench, release, position) = try open()
        // The expected sequence.
        #expect(bench.sync(position.next) == position)
        // A stale sequence: later chunks arrived before SYNC.
        #expect(bench.sync(position.next &- 1) == position)
        #expect(bench.sync(position.next &+ 2048) == position)
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
        // Chunks are missing. The answer and Progress report the rewind.
        for ahead in [1, 2047] as [UInt16] {
            let before = try #require(bench.progress?.position)
            let rewound = Position(next: before.next &+ 4096, offset: 242, crc: position.crc)
            #expect(bench.sync(before.next &+ ahead) == rewound)
            #expect(bench.heard(OTA_PROGRESS).map { Position($0.dropFirst(2)) } == [rewound])
        }
        bench.send(release.image, at: try #require(bench.progress?.position), upTo: 1000)
        #expect(bench.progress?.position?.offset == 1000)
    }

    @Test("after BEGIN the chunks that were queued before it are stale")
    func beginMakesWhatIsQueuedStale() throws {
        let (bench, release, position) = try open()
        let again = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(again == Position(next: position.next &+ 4096, offset: 242, crc: position.crc))
        for ahead in UInt16(0)...100 { bench.write(data: little(position.next &+ ahead) + [1, 2, 3]) }
        #expect(bench.progress?.position == again)
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
    }

    @Test("a refused BEGIN does not change the expected sequence")
    func aRefusedBeginMovesNoSequence() throws {
        let (bench, _, position) = try open()
        #expect(bench.request(OTA_BEGIN, [1, 2, 3]) == OTA_BAD_ARGUMENT)
        #expect(bench.progress?.position == position)
    }
}

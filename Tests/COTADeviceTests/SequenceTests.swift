import COTADevice
import Testing

/// How order is kept: what each sequence means, modulo 65536.
@Suite struct SequenceTests {
    /// A device in *image* with the first chunk of 242 bytes taken; an image that lasts.
    private func open(_ size: Int = 4000, window: UInt16 = 2047) throws -> (Bench, Release, Position) {
        var settings = Settings()
        settings.window = window
        let bench = Bench(settings)
        let release = Release(image: Release.image(count: size))
        bench.bring(to: OTA_STATE_IMAGE, release)
        return (bench, release, try #require(bench.progress?.position))
    }

    @Test(arguments: [1, 2, 2046, 2047] as [UInt16])
    func ahead(_ distance: UInt16) throws {
        let (bench, release, position) = try open()
        bench.write(data: little(position.next &+ distance) + release.image[300..<310])
        let rewound = Position(next: position.next &+ 4096, offset: 242, crc: position.crc)
        #expect(bench.heard(OTA_PROGRESS).map { Position($0.dropFirst(2)) } == [rewound])
    }

    @Test(arguments: [2048, 2049, 4096, 32767, 32768, 61440, 65534, 65535] as [UInt16])
    func stale(_ distance: UInt16) throws {
        let (bench, release, position) = try open()
        bench.write(data: little(position.next &+ distance) + release.image[242..<310])
        #expect(bench.progress?.position == position)
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
    }

    /// What the host had in flight behind a gap is stale by its number: the gap is told once, a second loss a second time.
    @Test func aGapIsToldOnce() throws {
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

    @Test func bytesThatDoNotFitRewind() throws {
        let (bench, release, position) = try open(600)
        let sequence = bench.send(release.image, at: position, upTo: 600)
        bench.write(data: little(sequence) + [1])
        #expect(
            bench.heard(OTA_PROGRESS).map { Position($0.dropFirst(2)) }
                == [Position(next: sequence &+ 4096, offset: 600, crc: Crypto.crc32(release.image))])
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test func bytesThatFitInPartAreNotTakenInPart() throws {
        let (bench, release, position) = try open(400)
        bench.write(data: little(position.next) + [UInt8](repeating: 9, count: 159))
        #expect(bench.progress?.position == Position(next: position.next &+ 4096, offset: 242, crc: position.crc))
        bench.send(release.image, at: try #require(bench.progress?.position))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test func tooShortAndTooLongValuesAreDropped() throws {
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

    @Test func byteByByte() throws {
        let (bench, release, position) = try open(600)
        bench.send(release.image, at: position, chunk: 1)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    /// 70000 chunks: once round, with a gap wherever the sequence wraps.
    @Test func theWrap() throws {
        var settings = Settings()
        settings.largestImage = 70000
        settings.slotSize = 70144
        settings.window = 2047
        let bench = Bench(settings)
        let release = Release(image: Release.image(count: 70000))
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
        // Both 65535 and 1 were passed or jumped over; a rewind at 65535 lands at 4095.
        #expect(gaps == 1)
        #expect(
            bench.progress?.position
                == Position(
                    next: position.next, offset: 70000, crc: Crypto.crc32(release.image)))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test func syncIsAFlush() throws {
        let (bench, release, position) = try open()
        // Right.
        #expect(bench.sync(position.next) == position)
        // A later chunk overtook it.
        #expect(bench.sync(position.next &- 1) == position)
        #expect(bench.sync(position.next &+ 2048) == position)
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
        // Chunks are missing: a rewind, told on both.
        for ahead in [1, 2047] as [UInt16] {
            let before = try #require(bench.progress?.position)
            let rewound = Position(next: before.next &+ 4096, offset: 242, crc: position.crc)
            #expect(bench.sync(before.next &+ ahead) == rewound)
            #expect(bench.heard(OTA_PROGRESS).map { Position($0.dropFirst(2)) } == [rewound])
        }
        bench.send(release.image, at: try #require(bench.progress?.position), upTo: 1000)
        #expect(bench.progress?.position?.offset == 1000)
    }

    @Test func beginMakesWhatIsQueuedStale() throws {
        let (bench, release, position) = try open()
        let again = try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
        #expect(again == Position(next: position.next &+ 4096, offset: 242, crc: position.crc))
        for ahead in UInt16(0)...100 { bench.write(data: little(position.next &+ ahead) + [1, 2, 3]) }
        #expect(bench.progress?.position == again)
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
    }

    @Test func aRefusedBeginMovesNoSequence() throws {
        let (bench, _, position) = try open()
        #expect(bench.request(OTA_BEGIN, [1, 2, 3]) == OTA_BAD_ARGUMENT)
        #expect(bench.progress?.position == position)
    }
}

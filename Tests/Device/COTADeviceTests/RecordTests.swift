import COTADevice
import Testing

@Suite("Records of the device core") struct RecordTests {
    private let release = BenchRelease(image: BenchRelease.image(count: 5000))

    /// Makes a restarted device that holds bytes. Without a wear limit the restart appends no record.
    private func bench(holding count: Int) throws -> Bench {
        var settings = Settings()
        settings.wearMinutes = UInt8(OTA_WEAR_UNLIMITED)
        let bench = Bench(settings)
        bench.bring(to: OTA_STATE_ACCEPTED, release)
        bench.send(release.image, at: try #require(bench.begin(OTA_OBJECT_IMAGE, release.image)), upTo: count)
        restart(bench)
        return bench
    }

    private func restart(_ bench: Bench) {
        bench.boot()
        bench.connect()
    }

    private func resume(_ bench: Bench) throws -> Position {
        #expect(bench.submit(release.envelope) == OTA_OK)
        return try #require(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max))
    }

    /// 63 pages and a part of one. A record page has five records. Therefore every fourth page has a record.
    private let large = BenchRelease(image: BenchRelease.image(count: 16300))

    @Test("one download of a large image erases each record page at most three times")
    func recordPagesOfALargeImage() throws {
        let bench = Bench()
        bench.bring(to: OTA_STATE_VERIFIED, large)
        #expect(bench.state == OTA_STATE_VERIFIED)
        for page in [0, 256] { #expect(bench.flash.operations.count { $0 == "erase record \(page)" } <= 3) }
        #expect(bench.flash.records.map(\.offset) == Array(stride(from: 0, to: 16300, by: 1024)) + [16300])
        #expect(bench.flash.violations.isEmpty)
    }

    @Test(
        "after a reset a large image resumes from its last record, less than four pages back",
        arguments: [1023, 1024, 1279, 2047, 2048, 5000, 16299, 16300])
    func resumeOfALargeImage(_ offset: Int) throws {
        let bench = Bench()
        bench.bring(to: OTA_STATE_ACCEPTED, large)
        bench.send(large.image, at: try #require(bench.begin(OTA_OBJECT_IMAGE, large.image)), upTo: offset)
        bench.reconnect()
        bench.submit(large.envelope)
        #expect(bench.begin(OTA_OBJECT_IMAGE, large.image, from: .max)?.offset == offset)
        restart(bench)
        bench.submit(large.envelope)
        let position = try #require(bench.begin(OTA_OBJECT_IMAGE, large.image, from: .max))
        #expect(position.offset == (offset == 16300 ? 16300 : offset / 1024 * 1024))
        #expect(position.crc == Crypto.crc32(large.image.prefix(position.offset)))
        bench.send(large.image, at: position)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        #expect(bench.flash.violations.isEmpty)
    }

    @Test("a record with a wrong CRC does not count")
    func aDamagedRecord() throws {
        let bench = try bench(holding: 512)
        bench.flash.record[96 + 41] = 4
        restart(bench)
        #expect(try resume(bench).offset == 256)
    }

    @Test("after the highest generation the newest record still counts")
    func generationsWrap() throws {
        let bench = try bench(holding: 256)
        for (place, generation) in [(0, UInt32.max - 1), (48, .max)] {
            bench.flash.record.replaceSubrange(place + 4..<place + 8, with: little(generation))
            let checksum = Crypto.crc32(bench.flash.record[place..<place + 44])
            bench.flash.record.replaceSubrange(place + 44..<place + 48, with: little(checksum))
        }
        restart(bench)
        let position = try resume(bench)
        #expect(position.offset == 256)
        bench.send(release.image, at: position, upTo: 512)
        restart(bench)
        #expect(try resume(bench).offset == 512)
    }
}

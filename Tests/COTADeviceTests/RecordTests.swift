import COTADevice
import Testing

/// The records of how far an image has come, as they are in flash.
@Suite struct RecordTests {
    private let release = Release(image: Release.image(count: 5000))

    /// A device that holds so many bytes, and has restarted. It has no wear limit, so the restart appends no record.
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

import COTADevice
import Testing

@Suite("Readable values of the device core") struct InfoTests {
    @Test("Info contains each configured value in the order of the profile")
    func composition() {
        var settings = Settings()
        settings.keys = [.rfc8032, .second]
        settings.counter = 0x0102_0304
        settings.format = 2
        settings.hardware = 0x0506
        settings.largestImage = 0x1234
        settings.longestData = 512
        settings.window = 2047
        settings.restartSeconds = 300
        settings.trialSeconds = 600
        let bench = Bench(settings)
        bench.boot()
        bench.connect()
        let ids = SigningKey.rfc8032.id + SigningKey.second.id
        let list =
            bytes(
                "01 01 01  02 04 64656d6f  03 02 0605  04 04 04030201  05 05 02 34120000  06 04 0002 ff07  07 04 2c01 5802"
            )
            + [8, 16] + ids
        #expect(bench.read(OTA_INFO) == list)
    }

    @Test("Info announces LZMA2 and the largest base only if the device has a decoder")
    func encodings() {
        for (hasDecoder, baseSize, item) in [
            (false, 0x0102, nil), (true, 0, "01 00000000"), (true, 0x0102_0304, "01 04030201"),
        ] as [(Bool, UInt32, String?)] {
            var settings = Settings()
            settings.hasDecoder = hasDecoder
            settings.baseSize = baseSize
            let bench = Bench(settings)
            bench.boot()
            bench.connect()
            #expect(info(bench, 11) == item.map { bytes($0) })
        }
    }

    @Test("Info keeps the held offset from the start of the connection")
    func runningAndHeld() {
        let bench = Bench()
        bench.settings.runningDigest = (100..<132).map { UInt8($0) }
        bench.bring(to: OTA_STATE_IMAGE)
        // The values are from the start of the connection.
        #expect(info(bench, 9) == (100..<108).map { UInt8($0) })
        #expect(info(bench, 10) == nil)
        bench.connect(2)
        #expect(info(bench, 10, by: 2) == BenchRelease().digest.prefix(8) + [242, 0, 0, 0])
        #expect(info(bench, 10) == nil)
        bench.request(OTA_DISCARD)
        #expect(info(bench, 10, by: 2) == BenchRelease().digest.prefix(8) + [242, 0, 0, 0])
    }

    /// The other tests of this suite have the default size, and no such item.
    @Test("Info states the longest envelope, except the default of 1332 bytes", arguments: [158, 1331, 1333, 65124])
    func longestEnvelope(_ largest: UInt16) {
        var settings = Settings()
        settings.largestEnvelope = largest
        let bench = Bench(settings)
        bench.boot()
        bench.connect()
        #expect(info(bench, 12) == little(largest))
        bench.settings.largestEnvelope = 1332
        bench.boot()
        bench.connect()
        #expect(info(bench, 12) == nil)
    }

    @Test("the longest Info has 262 bytes, and its parts at rising offsets make the whole value")
    func theLongestAndItsPartsMakeTheWhole() throws {
        var settings = Settings()
        settings.product = String(repeating: "p", count: 63)
        settings.keyIDs = (0..<16).map { i in [UInt8](repeating: UInt8(i), count: 8) }
        settings.runningDigest = [UInt8](repeating: 7, count: 32)
        settings.hasDecoder = true
        settings.largestEnvelope = 4096
        let bench = Bench(settings)
        // The test writes the record itself, because no envelope is accepted with these keys.
        var record: [UInt8] = bytes("52320000 01000000") + [UInt8](repeating: 8, count: 32) + little(UInt32(512))
        record += little(Crypto.crc32(record))
        bench.flash.record.replaceSubrange(0..<48, with: record)
        bench.boot()
        bench.connect()
        let whole = try #require(bench.read(OTA_INFO))
        #expect(whole.count == OTA_INFO_LARGEST)
        for part in [1, 22, 100, 261, 262] {
            var parts: [UInt8] = []
            while let next = bench.read(OTA_INFO, from: parts.count, upTo: part), !next.isEmpty { parts += next }
            #expect(parts == whole)
        }
        #expect(bench.read(OTA_INFO, from: 262) == [])
        #expect(bench.read(OTA_INFO, from: 263) == nil)
        #expect(bench.read(OTA_VERSION, from: 2, upTo: 2) == Array("0.".utf8))
        #expect(bench.read(OTA_PROGRESS, from: 13) == nil)
        #expect(bench.read(OTA_CONTROL) == nil)
        #expect(bench.read(OTA_DATA) == nil)
    }

    /// The header states this limit.
    @Test("struct ota_device has less than 640 bytes")
    func size() { #expect(MemoryLayout<ota_device>.size < 640) }
}

import OTAFirmware
import Testing

@Suite("ESP-IDF images") struct EspressifParserTests {
    /// The expected values are those of `esptool image-info` for the same file.
    @Test("an image of esptool is parsed to the values that esptool prints")
    func anImageOfEsptool() throws {
        let description = try inspect(try EspressifSample.image())
        #expect(description.format == .espressif)
        #expect(description.size == 352)
        #expect(description.notes.isEmpty)
        #expect(description.versionText == "v1.2.3-4-gabcdef0")
        #expect(description.version == SemanticVersion("1.2.3-4-gabcdef0"))
        #expect(description.product == ProductName("demo-device"))
        guard case .espressif(let image) = description.details else {
            Issue.record("not an ESP-IDF image")
            return
        }
        #expect(image.chip == "ESP32-C3")
        #expect(image.chipID == 5)
        #expect(image.flashSize == "4MB")
        #expect(image.entryPoint == 0x4038_0000)
        #expect(image.chipRevisions == 0...65535)
        #expect(image.segments.map(\.loadAddress) == [0x3C00_0020, 0x4038_0000])
        #expect(image.segments.map(\.length) == [0x100, 8])
        #expect(image.segments.map(\.offset) == [0x20, 0x128])
        #expect(image.digest == (try digest("884505de0daa1edd65d2f9b96c17e4340c7210da175be78d1efb833fb77272e5")))
        #expect(image.length == 352)
        let application = try #require(image.application)
        #expect(application.secureVersion == 7)
        #expect(application.version == "v1.2.3-4-gabcdef0")
        #expect(application.project == "demo-device")
        #expect(application.date == "Jan  1 2026")
        #expect(application.time == "12:34:56")
        #expect(application.frameworkVersion == "v5.5.1")
        #expect(
            application.elfDigest
                == (try digest("11db6d96a889088d353f4a918a0476e7066b0751cd7c7ebd9d7394b6cd62ef1f")))
    }

    @Test("the description of an ESP-IDF image does not depend on the block size")
    func anyChunkSize() throws {
        let image =
            try EspressifSample.image() + [UInt8](repeating: 0xFF, count: 3744) + EspressifSample.signatureSector
        let whole = try inspect(image)
        for size in Array(1...40) + [255, 256, 352, 4096, 4097] {
            #expect(try inspect(image, inChunksOf: size) == whole, "chunks of \(size)")
        }
    }

    @Test("each truncated ESP-IDF image is refused")
    func everyTruncationIsRefused() throws {
        let image = try EspressifSample.image()
        for length in 1..<image.count {
            let error = refusal(Array(image.prefix(length)))
            #expect(error?.code == .truncatedImage, "cut to \(length) bytes")
            #expect((error?.offset ?? .max) <= UInt64(length), "cut to \(length) bytes")
        }
    }

    /// The checksum covers the data of the segments. The digest covers all bytes before it.
    @Test("an ESP-IDF image with a damaged byte is refused")
    func everyDamagedByteIsRefused() throws {
        let image = try EspressifSample.image()
        for index in image.indices {
            var damaged = image
            damaged[index] ^= 0x10
            // Without its magic, the file has another type.
            if index == 0 {
                #expect(try inspect(damaged).format == .raw)
            } else {
                #expect(throws: ImageError.self, "byte \(index)") { try inspect(damaged) }
            }
        }
    }

    @Test(
        "a wrong byte in an ESP-IDF image is refused with its offset",
        arguments: [
            (1, 0, .badImageHeader, 1), (1, 17, .badImageHeader, 1), (23, 2, .badImageHeader, 23),
            (28, 2, .badImageHeader, 28), (0x124, 9, .badImageHeader, 0x124), (0x127, 0xFF, .truncatedImage, 0x128),
            (0x20, 0, .badImageDigest, 319), (319, 0, .badImageDigest, 319), (8, 0, .badImageDigest, 320),
            (320, 0, .badImageDigest, 320), (23, 0, .trailingImageBytes, 320),
        ] as [(Int, UInt8, ImageError.Code, UInt64)])
    func oneByteWrong(at offset: Int, value: UInt8, code: ImageError.Code, where found: UInt64) throws {
        var image = try EspressifSample.image()
        image[offset] = value
        let error = refusal(image)
        #expect(error?.code == code)
        #expect(error?.offset == found)
    }

    @Test("an ESP-IDF image without digest and description is accepted with notes")
    func withoutADigest() throws {
        let description = try inspect(EspressifSample.image(segments: [[1, 2, 3, 4]], hasDigest: false))
        #expect(description.notes.contains { $0.contains("has no SHA-256") })
        #expect(description.notes.contains { $0.contains("no application description") })
        #expect(description.version == nil)
        #expect(description.product == nil)
    }

    @Test("an ESP-IDF image may have 16 segments")
    func segmentsAtTheirLimits() throws {
        let sixteen = [[UInt8]](repeating: [], count: 15) + [[1, 2, 3, 4]]
        guard case .espressif(let image) = try inspect(EspressifSample.image(segments: sixteen)).details else {
            Issue.record("not an ESP-IDF image")
            return
        }
        #expect(image.segments.count == 16)
        #expect(image.segments.last?.offset == 24 + 16 * 8)
    }

    @Test("an ESP-IDF image for an unknown chip is accepted with a note")
    func aChipOfTomorrow() throws {
        let description = try inspect(EspressifSample.image(segments: [[1, 2, 3, 4]], chip: 999))
        #expect(description.notes.contains { $0.contains("chip id 999") })
    }

    @Test("control characters in the application description are escaped")
    func textsThatCouldSpeakToATerminal() throws {
        var segment = Array(try EspressifSample.image()[0x20..<0x120])
        segment.replaceSubrange(16..<48, with: Array("1.0.0\u{1B}[2J".utf8) + [UInt8](repeating: 0, count: 23))
        segment.replaceSubrange(48..<80, with: [UInt8](repeating: 0x78, count: 32))
        guard case .espressif(let image) = try inspect(EspressifSample.image(segments: [segment])).details else {
            Issue.record("not an ESP-IDF image")
            return
        }
        #expect(image.application?.version == #"1.0.0\x1b[2J"#)
        #expect(image.application?.project == String(repeating: "x", count: 32))
    }

    @Test("padding and signature sectors may follow an ESP-IDF image")
    func whatMayFollow() throws {
        let image = try EspressifSample.image()
        let padding = [UInt8](repeating: 0xFF, count: 3744)
        let sector = EspressifSample.signatureSector
        #expect(try inspect(image + padding).notes == ["3744 bytes of padding follow the image"])
        #expect(try inspect(image + [0xFF]).notes == ["1 bytes of padding follow the image"])
        let signed = try inspect(image + padding + sector)
        #expect(signed.notes == ["the Secure Boot v2 signature at offset 4096 was not checked; the device checks it"])
        #expect(signed.size == 8192)
        #expect(try inspect(image + padding + sector + sector).notes == signed.notes)
    }

    @Test("all other bytes after an ESP-IDF image are refused with their offset")
    func whatMayNotFollow() throws {
        let image = try EspressifSample.image()
        let padding = [UInt8](repeating: 0xFF, count: 3744)
        let sector = EspressifSample.signatureSector
        let cases: [(String, [UInt8], ImageError.Code, UInt64)] = [
            ("a byte", image + [0], .trailingImageBytes, 352),
            ("a sector without padding before it", image + sector, .trailingImageBytes, 352),
            ("a byte in the padding", image + padding.dropLast() + [0xE7], .trailingImageBytes, 4095),
            (
                "a byte that is not padding before a sector", image + padding + [0xAA] + sector, .trailingImageBytes,
                4096
            ),
            ("padding after a sector", image + padding + sector + [0xFF], .trailingImageBytes, 8192),
            ("half a sector", image + padding + sector.prefix(2048), .truncatedImage, 4096),
        ]
        for (name, bytes, code, offset) in cases {
            let error = refusal(bytes)
            #expect(error?.code == code, "\(name)")
            #expect(error?.offset == offset, "\(name)")
        }
    }
}

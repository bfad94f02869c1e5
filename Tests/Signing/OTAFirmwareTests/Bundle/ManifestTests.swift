import OTAFirmware
import Testing

/// Each test breaks one rule of docs/bundle-format.md and checks the offset of the error.
@Suite("Manifests") struct ManifestTests {
    /// Parses the example's manifest with other bytes at `offset`, and returns the error.
    ///
    /// The manifest has 89 bytes: version at offset 64, product at 73, hardware at 81.
    private func refusal(at offset: Int, _ bytes: [UInt8]) throws -> BundleError? {
        var manifest = try ExampleBundle.manifest().bytes
        manifest.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
        return #expect(throws: BundleError.self) { try Manifest(parsing: manifest) }
    }

    @Test(
        "wrong bytes in the header or fields of a manifest are refused with their offset",
        arguments: [
            (0, [0x4E], .badMagic, 0), (3, [0x66], .badMagic, 0),
            (4, [0], .unsupportedVersion, 4), (4, [1], .unsupportedVersion, 4), (4, [3], .unsupportedVersion, 4),
            (5, [4], .unsupportedImageFormat, 5), (5, [255], .unsupportedImageFormat, 5),
            (6, [63, 0], .badManifestLength, 6), (6, [1, 4], .badManifestLength, 6),
            (6, [0xFF, 0xFF], .badManifestLength, 6),
            (6, [88, 0], .fieldOverrun, 85), (6, [90, 0], .truncated, 64), (6, [83, 0], .fieldOverrun, 83),
            (6, [81, 0], .trailingBytes, 81), (6, [64, 0], .missingVersion, 64), (6, [73, 0], .missingProduct, 73),
            (8, [0, 0], .badImageSize, 8),
            (12, [1], .notZero, 12), (15, [1], .notZero, 12), (20, [1], .notZero, 20), (23, [0x80], .notZero, 20),
            (24, [0x80, 0x41, 0xDD, 0x0A, 0x3B], .badCreationTime, 24), (31, [0x80], .badCreationTime, 24),
            (66, [6], .badVersion, 68), (68, [0x76], .badVersion, 68), (72, [0xFF], .badVersion, 68),
            (73, [2, 0], .fieldOrder, 73), (73, [1, 0], .fieldOrder, 73), (81, [1, 0x80], .fieldOrder, 81),
            (77, [0x20], .badProduct, 77), (80, [0x2F], .badProduct, 77),
            (85, [4, 0], .badHardware, 85), (83, [3], .badHardware, 85),
            (83, [5], .fieldOverrun, 85), (83, [0xFF, 0xFF], .fieldOverrun, 85),
        ] as [(Int, [UInt8], BundleError.Code, Int)])
    func oneByteWrong(at offset: Int, bytes: [UInt8], code: BundleError.Code, where found: Int) throws {
        let error = try refusal(at: offset, bytes)
        #expect(error?.code == code)
        #expect(error?.offset == found)
    }

    /// Returns a manifest with `fields` in this order. Everything else in it is valid.
    private func manifest(fields: [(UInt16, [UInt8])]) throws -> [UInt8] {
        var writer = ByteWriter()
        for (type, value) in fields {
            writer.write(type)
            writer.write(UInt16(value.count))
            writer.write(value)
        }
        var bytes = Array(try ExampleBundle.manifest().bytes.prefix(64)) + writer.bytes
        bytes[6] = UInt8(bytes.count & 0xFF)
        bytes[7] = UInt8(bytes.count >> 8)
        return bytes
    }

    private func manifest(with type: UInt16, _ value: [UInt8]) throws -> [UInt8] {
        let required: [(UInt16, [UInt8])] = [(0x0002, Array("1.1.0".utf8)), (0x8001, Array("demo".utf8))]
        return try manifest(fields: (required.filter { $0.0 != type } + [(type, value)]).sorted { $0.0 < $1.0 })
    }

    @Test(
        "a field with an invalid value is refused with the offset of the value",
        arguments: [
            (0x0002, [], .badVersion), (0x0002, Array("1.0".utf8), .badVersion),
            (0x0002, Array("1.0.0-".utf8) + Array(repeating: 0x61, count: 58), .badVersion),
            (0x0004, [], .badMinimumBattery), (0x0004, [101], .badMinimumBattery),
            (0x0004, [50, 0], .badMinimumBattery),
            (0x0006, [], .badSource), (0x0006, Array(repeating: 0x61, count: 128), .badSource),
            (0x0006, [0x61, 0x0A], .badSource), (0x0006, [0x7F], .badSource), (0x0006, [0xC2, 0x9B], .badSource),
            (0x0006, [0xC3], .badSource), (0x0006, [0xC0, 0x80], .badSource), (0x0006, [0xED, 0xA0, 0x80], .badSource),
            (0x8001, [], .badProduct), (0x8001, Array(repeating: 0x61, count: 64), .badProduct),
            (0x8003, [], .badHardware), (0x8003, [1, 0, 2], .badHardware), (0x8003, [2, 0, 1, 0], .badHardware),
            (0x8003, [1, 0, 2, 0, 3, 0, 3, 0], .badHardware), (0x8003, [1, 0, 2, 0, 2, 0, 3, 0], .badHardware),
            (0x8003, [5, 0, 5, 0, 1, 0, 2, 0], .badHardware),
            (0x8003, (0..<17).flatMap { [$0 * 2, 0, $0 * 2, 0] }, .badHardware),
            (0x8005, [], .badRequiredVersion), (0x8005, Array(repeating: 0, count: 11), .badRequiredVersion),
            (0x8005, Array(repeating: 0, count: 13), .badRequiredVersion),
        ] as [(UInt16, [UInt8], BundleError.Code)])
    func oneFieldWrong(type: UInt16, value: [UInt8], code: BundleError.Code) throws {
        let bytes = try manifest(with: type, value)
        let error = #expect(throws: BundleError.self) { try Manifest(parsing: bytes) }
        #expect(error?.code == code)
        let start = try #require([0x0002: 64, 0x0004: 73, 0x0006: 73, 0x8001: 73, 0x8003: 81, 0x8005: 81][type])
        #expect(error?.offset == start + 4)
    }

    @Test("a field that appears twice is refused")
    func aFieldTwice() throws {
        let bytes = try manifest(fields: [
            (0x0002, Array("1.1.0".utf8)), (0x0002, Array("1.1.1".utf8)), (0x8001, Array("demo".utf8)),
        ])
        let error = #expect(throws: BundleError.self) { try Manifest(parsing: bytes) }
        #expect(error?.code == .fieldOrder)
        #expect(error?.offset == 73)
    }

    @Test("a manifest with each field at its limit is encoded and parsed without change")
    func everyFieldAtItsLimits() throws {
        let manifest = try Manifest(
            imageFormat: .mcuboot, imageSize: .max, securityCounter: .max, created: Manifest.latestCreationTime,
            imageDigest: try ExampleBundle.imageDigest(),
            version: try #require(SemanticVersion("1.0.0-" + String(repeating: "x", count: 57))),
            product: try #require(ProductName(String(repeating: "p", count: 63))),
            hardware: HardwareRevisions((0..<16).map { "\($0 * 2)" }.joined(separator: ",")),
            minimumBattery: 100, source: String(repeating: "é", count: 63) + "!",
            requires: RequiredVersion(major: .max, minor: 0, patch: 1),
            unknownFields: [
                ManifestField(type: 0x0000, value: []), ManifestField(type: 0xFFFF, value: [1]),
                ManifestField(type: 0x8007, value: [1, 2]), ManifestField(type: 0x0003, value: [3]),
            ])
        #expect(try Manifest(parsing: manifest.bytes) == manifest)
        #expect(manifest.unknownFields.map(\.type) == [0x0000, 0x0003, 0x8007, 0xFFFF])
        #expect(manifest.unknownCriticalFields.map(\.type) == [0x8007, 0xFFFF])
        #expect(manifest.source?.utf8.count == 127)
        #expect(manifest.requires?.description == "4294967295.0.1")
        #expect(manifest.minimumBattery == 100)
        #expect(manifest.imageSize == .max && manifest.securityCounter == .max)
        #expect(manifest.hardware?.ranges.count == 16)
    }

    @Test("the source text keeps its bytes, without Unicode normalization")
    func theEncodingIsTheSourcesToTheByte() throws {
        // A decomposed é and a composed é have different bytes. The signed bytes must not change.
        let bytes = try manifest(with: 0x0006, Array("e\u{301}".utf8))
        let manifest = try Manifest(parsing: bytes)
        #expect(manifest.source.map { Array($0.utf8) } == [0x65, 0xCC, 0x81])
        #expect(manifest.bytes == bytes)
    }

    @Test("a new manifest must follow the rules of a parsed manifest")
    func makingOneObeysTheSameRules() throws {
        func make(
            size: UInt32 = 1, created: UInt64 = 0, battery: UInt8? = nil, source: String? = nil,
            unknown: [ManifestField] = []
        ) throws -> Manifest {
            try Manifest(
                imageFormat: .raw, imageSize: size, securityCounter: 0, created: created,
                imageDigest: try ExampleBundle.imageDigest(), version: try #require(SemanticVersion("1.1.0")),
                product: try #require(ProductName("demo")), minimumBattery: battery, source: source,
                unknownFields: unknown)
        }
        func refusal(_ make: () throws -> Manifest) -> BundleError? {
            #expect(throws: BundleError.self) { try make() }
        }
        #expect(refusal { try make(size: 0) }?.code == .badImageSize)
        #expect(refusal { try make(created: Manifest.latestCreationTime + 1) }?.code == .badCreationTime)
        #expect(refusal { try make(battery: 101) }?.offset == 77)
        #expect(refusal { try make(source: "\u{1B}[31m") }?.code == .badSource)
        #expect(
            refusal { try make(unknown: [ManifestField(type: 2, value: Array("1.1.0".utf8))]) }?.code == .fieldOrder)
        // The header has 64 bytes, the version 9 and the product 8. 943 bytes remain, and 4 of these are the header of the field.
        let longest = ManifestField(type: 9, value: Array(repeating: 0, count: 939))
        #expect(try make(unknown: [longest]).bytes.count == 1024)
        for count in [940, 65536, 70000] {
            let longer = ManifestField(type: 9, value: Array(repeating: 0, count: count))
            #expect(refusal { try make(unknown: [longer]) }?.code == .badManifestLength)
        }
    }

    @Test("an error message escapes control and format characters from the manifest")
    func whatIsShownCannotSpeakToATerminal() throws {
        let bytes = try manifest(with: 0x0006, Array("\u{1B}[2J\u{202E}\n".utf8))
        let error = #expect(throws: BundleError.self) { try Manifest(parsing: bytes) }
        #expect(
            error?.description
                == #"at offset 77: expected 1 to 127 bytes of UTF-8 without control characters, "#
                + #"found "\x1b[2J\xe2\x80\xae\x0a""#)
    }
}

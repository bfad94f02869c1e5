/// An ESP-IDF application image, as esptool's `elf2image` writes it
/// (docs.espressif.com/projects/esptool, "Firmware Image Format"). Its segments were measured, its checksum checked,
/// and its SHA-256 where it has one.
public struct EspressifImage: Sendable, Hashable {
    /// The first byte.
    static let magic: UInt8 = 0xE9

    public struct Segment: Sendable, Hashable {
        public let loadAddress: UInt32
        /// In bytes.
        public let length: UInt32
        /// Where its data lie in the image.
        public let offset: UInt64
    }

    public let chipID: UInt16
    /// Such as `4MB`, what the image was made for; nil for a code that is not listed.
    public let flashSize: String?
    public let entryPoint: UInt32
    /// The lowest and highest chip revision it runs on, 100 × major + minor.
    public let chipRevisions: ClosedRange<UInt16>?
    /// 1 to 16.
    public let segments: [Segment]
    /// The SHA-256 appended to the image, checked; nil where none is.
    public let digest: SHA256Digest?
    /// What the application says of itself, where it does.
    public let application: EspressifApplication?
    /// Where checksum and digest end: what follows is padding or a signature.
    public let length: UInt64

    /// Such as `ESP32-C3`; nil for a chip that is not listed.
    public var chip: String? { Self.chips[chipID] }

    /// esptool 5.6.0, `IMAGE_CHIP_ID` of each target.
    private static let chips: [UInt16: String] = [
        0: "ESP32", 2: "ESP32-S2", 5: "ESP32-C3", 9: "ESP32-S3", 12: "ESP32-C2", 13: "ESP32-C6", 16: "ESP32-H2",
        18: "ESP32-P4", 20: "ESP32-C61", 23: "ESP32-C5", 25: "ESP32-H21", 28: "ESP32-H4", 31: "ESP32-E22",
        32: "ESP32-S31",
    ]
}

/// The description that ESP-IDF links in front of an application: `esp_app_desc_t`, the first 256 bytes of the first
/// segment.
public struct EspressifApplication: Sendable, Hashable {
    static let encodedLength = 256
    /// The first four bytes, 0xABCD5432.
    private static let magic: UInt32 = 0xABCD_5432

    /// What anti-rollback compares.
    public let secureVersion: UInt32
    /// Any text, often not a semantic version: `v5.1-12-gabc` or `1`. What cannot be shown is escaped, here as below.
    public let version: String
    public let project: String
    /// When it was compiled, as `__DATE__` and `__TIME__`.
    public let date, time: String
    /// The version of ESP-IDF.
    public let frameworkVersion: String
    /// The SHA-256 of the ELF file it was made of.
    public let elfDigest: SHA256Digest?

    /// Nil unless there are 256 bytes with the magic in front.
    init?(_ bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        guard bytes.count == Self.encodedLength, (try? reader.read(UInt32.self)) == Self.magic,
            let secureVersion = try? reader.read(UInt32.self), (try? reader.read(8)) != nil,
            let version = try? reader.read(32), let project = try? reader.read(32), let time = try? reader.read(16),
            let date = try? reader.read(16), let frameworkVersion = try? reader.read(32),
            let elfDigest = try? reader.read(32)
        else { return nil }
        self.secureVersion = secureVersion
        self.version = Self.text(version)
        self.project = Self.text(project)
        self.date = Self.text(date)
        self.time = Self.text(time)
        self.frameworkVersion = Self.text(frameworkVersion)
        self.elfDigest = elfDigest.allSatisfy { $0 == 0 } ? nil : SHA256Digest(bytes: elfDigest)
    }

    /// A C string, which may fill its field to the last byte.
    private static func text(_ field: ArraySlice<UInt8>) -> String {
        let bytes = field.prefix { $0 != 0 }
        return harmlessText(bytes) ?? escaped(bytes)
    }
}

/// The 24 bytes in front of an ESP-IDF image.
struct EspressifHeader {
    static let length: UInt64 = 24

    let segmentCount: Int
    let flashSize: String?
    let entryPoint: UInt32
    let chipID: UInt16
    let chipRevisions: ClosedRange<UInt16>?
    let hasDigest: Bool

    init(_ bytes: [UInt8]) throws(ImageError) {
        var reader = ByteReader(bytes)
        let segmentCount: UInt8
        let hasDigest: UInt8
        do {
            _ = try reader.read(1)
            segmentCount = try reader.read()
            _ = try reader.read(1)
            flashSize = Self.flashSizes[try reader.read(UInt8.self) >> 4]
            entryPoint = try reader.read()
            _ = try reader.read(4)
            chipID = try reader.read()
            _ = try reader.read(1)
            let lowest = try reader.read(UInt16.self)
            let highest = try reader.read(UInt16.self)
            chipRevisions = lowest <= highest ? lowest...highest : nil
            _ = try reader.read(4)
            hasDigest = try reader.read()
        } catch {
            throw ImageError(error)
        }
        guard (1...16).contains(segmentCount) else {
            throw ImageError(
                .badImageHeader, offset: 1, expected: "an ESP-IDF image (it begins with e9) of 1 to 16 segments",
                found: "\(segmentCount)")
        }
        guard hasDigest <= 1 else {
            throw ImageError(
                .badImageHeader, offset: 23, expected: "an ESP-IDF image (it begins with e9) with 0 or 1 for a digest",
                found: "\(hasDigest)")
        }
        self.segmentCount = Int(segmentCount)
        self.hasDigest = hasDigest == 1
    }

    /// The upper half of the byte at offset 3.
    private static let flashSizes: [UInt8: String] = [
        0: "1MB", 1: "2MB", 2: "4MB", 3: "8MB", 4: "16MB", 5: "32MB", 6: "64MB", 7: "128MB",
    ]
}

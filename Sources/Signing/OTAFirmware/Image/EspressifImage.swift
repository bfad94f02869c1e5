/// A parsed ESP-IDF application image in the format of esptool's `elf2image`.
///
/// The parser has checked the segment lengths and the checksum. If the image has a SHA-256, the parser has also checked the SHA-256. The
/// format is described in docs.espressif.com/projects/esptool, "Firmware Image Format".
public struct EspressifImage: Sendable, Hashable {
    /// The first byte of each image.
    static let magic: UInt8 = 0xE9

    public struct Segment: Sendable, Hashable {
        public let loadAddress: UInt32
        /// The length of the data in bytes.
        public let length: UInt32
        /// The position of the data, in bytes from the start of the image.
        public let offset: UInt64
    }

    public let chipID: UInt16
    /// The flash size that the image was made for, such as `4MB`; nil for an unknown code.
    public let flashSize: String?
    public let entryPoint: UInt32
    /// The chip revisions that can run the image. A revision is encoded as 100 × major + minor. Nil if the lowest revision in the image's
    /// header is above the highest revision.
    public let chipRevisions: ClosedRange<UInt16>?
    /// The 1 to 16 segments, in the same order as in the image.
    public let segments: [Segment]
    /// The last 32 bytes of the image: the SHA-256 of all earlier bytes. The parser has verified this digest. Nil if the image has no
    /// SHA-256.
    public let digest: SHA256Digest?
    /// The description of the application; nil if the image does not contain one.
    public let application: EspressifApplication?
    /// The length of the image in bytes, including checksum and digest. Padding or a signature may follow in the file.
    public let length: UInt64

    /// The chip's name, such as `ESP32-C3`; nil for an unknown chip.
    public var chip: String? { Self.chips[chipID] }

    /// The names of the chip ids. The source is `IMAGE_CHIP_ID` of each target in esptool 5.6.0.
    private static let chips: [UInt16: String] = [
        0: "ESP32", 2: "ESP32-S2", 5: "ESP32-C3", 9: "ESP32-S3", 12: "ESP32-C2", 13: "ESP32-C6", 16: "ESP32-H2",
        18: "ESP32-P4", 20: "ESP32-C61", 23: "ESP32-C5", 25: "ESP32-H21", 28: "ESP32-H4", 31: "ESP32-E22",
        32: "ESP32-S31",
    ]
}

extension EspressifImage {
    /// Returns the error for an ESP-IDF image that the user gave as an update file. Returns nil if `file` does not begin with the header of
    /// an ESP-IDF image.
    ///
    /// otaflash cannot check the signature of an ESP-IDF image. Therefore otaflash accepts such an image only inside a signed bundle.
    package static func unsignedRefusal(of file: [UInt8]) -> ImageError? {
        guard file.first == magic, (try? EspressifHeader(Array(file.prefix(Int(EspressifHeader.length))))) != nil else {
            return nil
        }
        // The application description follows the image header and the first segment's header, which has 8 bytes.
        let start = Int(EspressifHeader.length) + 8
        let application = EspressifApplication(Array(file.dropFirst(start).prefix(EspressifApplication.encodedLength)))
        let name = application.map { " of \($0.project) \($0.version)" } ?? ""
        return ImageError(
            .wrongImageFormat, offset: 0, expected: "a signed bundle or an MCUboot image",
            found: "an unsigned ESP-IDF image (magic e9)\(name)",
            hint: """
                for a device with the GATT OTA profile, sign the image into a bundle: otaflash sign IMAGE --key KEY.pem; \
                for Espressif's BLE OTA, which otaflash does not support, use Espressif's app esp-ble-ota
                """)
    }
}

/// The application description of ESP-IDF, `esp_app_desc_t`. It is the first 256 bytes of the first segment.
///
/// All texts are safe to show on a terminal. A text with control characters or invalid UTF-8 is escaped.
public struct EspressifApplication: Sendable, Hashable {
    static let encodedLength = 256
    /// The value of the first four bytes, little-endian.
    private static let magic: UInt32 = 0xABCD_5432

    /// The security version: the counter of the anti-rollback protection of ESP-IDF.
    public let secureVersion: UInt32
    /// The version of the application, which can be any text, for example `v5.1-12-gabc` or `1`.
    public let version: String
    public let project: String
    /// The date and time of compilation, in the formats of `__DATE__` and `__TIME__`.
    public let date, time: String
    /// The version of ESP-IDF.
    public let frameworkVersion: String
    /// The SHA-256 of the ELF file that the image was made from; nil if the field is zero.
    public let elfDigest: SHA256Digest?

    /// Returns nil if `bytes` does not have 256 bytes, or does not begin with the magic.
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

    /// Decodes a C string, which ends before the first zero byte. A string that fills its field has no zero byte.
    private static func text(_ field: ArraySlice<UInt8>) -> String {
        let bytes = field.prefix { $0 != 0 }
        return harmlessText(bytes) ?? escaped(bytes)
    }
}

/// The first 24 bytes of an ESP-IDF image.
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
                .badImageHeader, offset: 1, expected: "1 to 16 segments in an ESP-IDF image (magic e9)",
                found: "\(segmentCount)")
        }
        guard hasDigest <= 1 else {
            throw ImageError(
                .badImageHeader, offset: 23, expected: "0 or 1 as the digest flag of an ESP-IDF image (magic e9)",
                found: "\(hasDigest)")
        }
        self.segmentCount = Int(segmentCount)
        self.hasDigest = hasDigest == 1
    }

    /// The flash size for each code. The code is the upper four bits of the byte at offset 3.
    private static let flashSizes: [UInt8: String] = [
        0: "1MB", 1: "2MB", 2: "4MB", 3: "8MB", 4: "16MB", 5: "32MB", 6: "64MB", 7: "128MB",
    ]
}

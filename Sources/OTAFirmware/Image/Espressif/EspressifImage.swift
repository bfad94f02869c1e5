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

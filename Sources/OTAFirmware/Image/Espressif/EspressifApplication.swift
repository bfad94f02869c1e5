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

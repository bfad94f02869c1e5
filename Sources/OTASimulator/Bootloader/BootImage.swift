public import OTAFirmware

/// The virtual bootloader's record of the image in a slot.
public struct BootImage: Sendable, Equatable {
    /// The version as SemVer text, at most 63 bytes.
    public var version: String
    public var securityCounter: UInt32
    /// The SHA-256 of the image's manifest; nil for the factory image.
    public var manifestDigest: SHA256Digest?
    /// The size in bytes.
    public var size: Int
    /// The SHA-256 of the image. The bootloader boots the image only if its bytes match.
    public var digest: SHA256Digest

    public init(
        version: String, securityCounter: UInt32, manifestDigest: SHA256Digest?, size: Int, digest: SHA256Digest
    ) {
        self.version = version
        self.securityCounter = securityCounter
        self.manifestDigest = manifestDigest
        self.size = size
        self.digest = digest
    }
}

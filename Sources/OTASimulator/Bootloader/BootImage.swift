public import OTAFirmware

/// What the virtual bootloader knows of the image in a slot.
public struct BootImage: Sendable, Equatable {
    /// SemVer text, at most 63 bytes.
    public var version: String
    public var securityCounter: UInt32
    /// SHA-256 of the manifest it came with; nil: it was there from the factory.
    public var manifestDigest: SHA256Digest?
    /// Bytes.
    public var size: Int
    /// SHA-256 of the image. What does not hash to it is not booted.
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

public import OTAFirmware
public import SystemPackage

/// A bundle that was written to a file.
public struct SignedFile: Sendable {
    public let path: FilePath
    public let envelope: Envelope
    /// The SHA-256 of the manifest, which identifies the release.
    public let manifestDigest: SHA256Digest
    /// The image's description; nil if signatures were added to a bundle.
    public let image: FirmwareDescription?

    init(path: FilePath, envelope: Envelope, image: FirmwareDescription?) {
        self.path = path
        self.envelope = envelope
        self.image = image
        manifestDigest = SHA256.digest(of: envelope.manifestBytes)
    }
}

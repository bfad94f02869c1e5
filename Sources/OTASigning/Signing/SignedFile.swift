public import OTAFirmware
public import SystemPackage

/// A bundle that was written.
public struct SignedFile: Sendable {
    public let path: FilePath
    public let envelope: Envelope
    /// SHA-256 of the manifest: the release's name.
    public let manifestDigest: SHA256Digest
    /// What the image says of itself; nil where a bundle got one signature more.
    public let image: FirmwareDescription?

    init(path: FilePath, envelope: Envelope, image: FirmwareDescription?) {
        self.path = path
        self.envelope = envelope
        self.image = image
        manifestDigest = SHA256.digest(of: envelope.manifestBytes)
    }
}

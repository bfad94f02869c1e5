public import OTAFirmware

/// An MCUboot image that may be sent as it is. Only a `Verifier` makes one: who holds it holds the proof that somebody
/// answers for it, a trusted key or the user.
public struct VerifiedImage: Sendable {
    /// Who answers for the image.
    public enum Warrant: Sendable, Hashable {
        /// The image's own Ed25519 signature holds, by this trusted key.
        case signature(KeyID)
        /// The image lies in a bundle that these trusted keys signed.
        case bundle([KeyID])
        /// Nobody whom the trust store knows: the user has taken it upon themselves.
        case consent
    }

    /// The whole file, as it is sent.
    public let bytes: [UInt8]
    public let image: MCUbootImage
    public let warrant: Warrant
    /// SHA-256 of `bytes`: what an upload is resumed by. Not the digest that a device lists, which is the image's own.
    public let fileDigest: SHA256Digest

    init(bytes: [UInt8], image: MCUbootImage, warrant: Warrant) {
        self.bytes = bytes
        self.image = image
        self.warrant = warrant
        fileDigest = SHA256.digest(of: bytes)
    }
}

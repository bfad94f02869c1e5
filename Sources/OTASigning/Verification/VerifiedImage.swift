public import OTAFirmware

/// An MCUboot image that may be sent as it is. Only a `Verifier` makes one: who holds it holds the proof that somebody
/// answers for it, a trusted key or the user.
public struct VerifiedImage: Sendable {
    /// Who answers for the image.
    public enum Authorization: Sendable, Hashable {
        /// The image's own Ed25519 signature holds, by this trusted key.
        case signature(KeyID)
        /// The image lies in a bundle that these trusted keys signed.
        case bundle([KeyID])
        /// Nobody whom the trust store knows: the user has taken it upon themselves.
        case consent(Consent)
    }

    /// From the header to the last TLV, as they are sent.
    public let bytes: [UInt8]
    /// Its `digest` is nil where the image carries another digest than SHA-256, which was checked, too.
    public let image: MCUbootImage
    public let authorization: Authorization
    /// The manifest of the bundle that holds the image: which device it is for. Nil for an image without a bundle.
    public let manifest: Manifest?
    /// SHA-256 of `bytes`: what an upload is resumed by. Not the digest that a device lists, which is the image's own.
    public let fileDigest: SHA256Digest

    init(_ file: MCUbootFile, authorization: Authorization, manifest: Manifest? = nil) {
        bytes = file.bytes
        image = file.image
        self.authorization = authorization
        self.manifest = manifest
        fileDigest = SHA256.digest(of: bytes)
    }
}

extension VerifiedBundle {
    /// The MCUboot image in the bundle, for which then those answer who signed the bundle, whoever signed the image.
    ///
    /// - Throws: `wrong-image-format` where the bundle carries another kind of image; what reading an image throws.
    public func mcubootImage() throws(ImageError) -> VerifiedImage {
        VerifiedImage(
            try MCUbootFile(parsing: bundle.image), authorization: .bundle(signers), manifest: bundle.envelope.manifest)
    }
}

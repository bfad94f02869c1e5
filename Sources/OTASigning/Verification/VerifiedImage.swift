public import OTAFirmware

/// An MCUboot image that may be sent. It is authorized by a trusted key or by the user's consent.
///
/// Only a `Verifier` or a `VerifiedBundle` can create it, so a value of this type proves the authorization.
public struct VerifiedImage: Sendable {
    /// The reason why the image may be sent.
    public enum Authorization: Sendable, Hashable {
        /// The image's own signature by this trusted key is valid.
        case signature(KeyID)
        /// The image is in a bundle that these trusted keys signed.
        case bundle([KeyID])
        /// No trusted key signed the image, and the user consented to it.
        case consent(Consent)
    }

    /// The bytes to send, from the header to the last TLV.
    public let bytes: [UInt8]
    /// The parsed image. Its `digest` is nil if the image contains a digest other than SHA-256. The `Verifier` checked that digest.
    public let image: MCUbootImage
    public let authorization: Authorization
    /// The manifest of the image's bundle, which names the device. Nil for an image without a bundle.
    public let manifest: Manifest?
    /// The SHA-256 of `bytes`, which identifies an upload to resume. It differs from the digest in a device's image list, which is the
    /// digest inside the image.
    public let fileDigest: SHA256Digest

    init(_ file: MCUbootFile, authorization: Authorization, manifest: Manifest? = nil) {
        bytes = file.bytes
        image = file.image
        self.authorization = authorization
        self.manifest = manifest
        fileDigest = SHA256.digest(of: bytes)
    }
}

/// The user's consent to an image that is not signed by a trusted key. Only a `Verifier` creates it, in `accept(_:)`.
public struct Consent: Sendable, Hashable {
    /// The reason why no trusted key authorizes the image: `not-signed`, `untrusted-key`, `unsupported-signature` or `encrypted-image`.
    public let reason: VerificationError.Code
    /// The reason as a text for the user.
    public let context: String

    /// Creates the consent to this error. Returns nil for an image that the user cannot consent to: it is damaged or forged, does not match
    /// the request, or is outside the scope of the key.
    init?(to error: VerificationError) {
        switch error.code {
        case .notSigned, .untrustedKey, .unsupportedSignature, .encryptedImage: break
        default: return nil
        }
        reason = error.code
        context = error.context
    }
}

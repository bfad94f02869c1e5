public import OTAFirmware

/// An MCUboot image that may be sent to a device. A trusted key or the user's consent authorizes the image.
///
/// Only a ``Verifier`` or a ``VerifiedBundle`` can create a value of this type. A function with a parameter of this type therefore never
/// receives an unauthorized image.
public struct VerifiedImage: Sendable {
    /// The reason why the image may be sent.
    public enum Authorization: Sendable, Hashable {
        /// The image contains a valid signature by this trusted key.
        case signature(KeyID)
        /// The image is in a bundle that these trusted keys signed.
        case bundle([KeyID])
        /// No trusted key authorizes the image, but the user consented to the transfer.
        case consent(Consent)
    }

    /// The bytes to send, from the header to the last TLV.
    public let bytes: [UInt8]
    /// The parsed image. Its `digest` is the SHA-256 in the image, or nil if the image contains no SHA-256 or is encrypted.
    public let image: MCUbootImage
    public let authorization: Authorization
    /// The manifest of the bundle that contains the image. The value is nil for an image without a bundle.
    public let manifest: Manifest?
    /// The SHA-256 of `bytes`. A device uses this digest to recognize a partial upload of the same bytes and to resume the upload.
    ///
    /// The image list of a device contains a different digest: the digest in the image's TLV.
    public let fileDigest: SHA256Digest

    /// The path of the policy that refuses a version that is lower than the running one (``FolderPolicy``). Nil means that no policy
    /// refuses it.
    public let downgradeRefusal: String?

    init(
        _ file: MCUbootFile, authorization: Authorization, manifest: Manifest? = nil, downgradeRefusal: String?
    ) {
        self.downgradeRefusal = downgradeRefusal
        bytes = file.bytes
        image = file.image
        self.authorization = authorization
        self.manifest = manifest
        fileDigest = SHA256.digest(of: bytes)
    }
}

/// The user's consent to send an image that no trusted key authorizes. Only `Verifier.accept(_:)` creates a consent.
public struct Consent: Sendable, Hashable {
    /// The code of the verification error that the consent overrides: `not-signed`, `untrusted-key`, `unsupported-signature` or
    /// `encrypted-image`.
    public let reason: VerificationError.Code
    /// The description of the verification error, as a text for the user.
    public let context: String

    /// Creates the consent to send an image although its verification failed with `error`.
    ///
    /// Returns nil if the user cannot override `error`. Examples are a wrong digest, an invalid signature by a trusted key, and a key whose
    /// scope excludes the image.
    init?(to error: VerificationError) {
        switch error.code {
        case .notSigned, .untrustedKey, .unsupportedSignature, .encryptedImage: break
        default: return nil
        }
        reason = error.code
        context = error.context
    }
}

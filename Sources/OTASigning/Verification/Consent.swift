/// The user's consent to an image that is not signed by a trusted key. Only a `Verifier` creates it, in `accept(_:)`.
public struct Consent: Sendable, Hashable {
    /// The reason why no trusted key vouches for the image: `not-signed`, `untrusted-key`, `unsupported-signature` or `encrypted-image`.
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

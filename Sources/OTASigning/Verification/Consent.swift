/// That the user takes an image for which nobody answers whom the trust store knows. Only a `Verifier` makes one, when it
/// was asked to accept an image in full knowledge of this.
public struct Consent: Sendable, Hashable {
    /// Why nobody answers for it: `not-signed`, `untrusted-key`, `unsupported-signature` or `encrypted-image`.
    public let reason: VerificationError.Code
    /// The same for people.
    public let context: String

    /// Nil where no consent can help: the image is damaged, forged, not what was asked for, or excluded by the scope that the user gave
    /// the key.
    init?(to error: VerificationError) {
        switch error.code {
        case .notSigned, .untrustedKey, .unsupportedSignature, .encryptedImage: break
        default: return nil
        }
        reason = error.code
        context = error.context
    }
}

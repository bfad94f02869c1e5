/// The reason why a bundle or an image is not accepted. Two errors are equal if their codes are equal.
public struct VerificationError: Error, Sendable, Equatable {
    /// Identifies the error for scripts. The values are stable.
    public enum Code: String, Sendable, CaseIterable {
        /// The manifest contains an unknown critical field.
        case unknownCriticalField = "unknown-critical-field"
        /// None of the signers is a trusted key.
        case untrustedKey = "untrusted-key"
        /// The signer is a trusted key, but its scope does not cover the file.
        case keyOutOfScope = "key-out-of-scope"
        /// A signature by a trusted key is invalid.
        case badSignature = "bad-signature"
        /// The digest of the image does not match the signed digest.
        case digestMismatch = "digest-mismatch"
        // MCUboot images only.
        /// The image has no signature.
        case notSigned = "not-signed"
        /// The algorithm of the signature is not supported.
        case unsupportedSignature = "unsupported-signature"
        /// The image has no digest.
        case noDigest = "no-digest"
        /// The image is encrypted, so only the device can check its digest.
        case encryptedImage = "encrypted-image"
        /// The image contains a record twice or in the wrong area, and a bootloader may use a different record than the host.
        case ambiguousImage = "ambiguous-image"
        // Correctly signed, but excluded by the policy.
        case demoKey = "demo-key"
        case wrongProduct = "wrong-product"
        case wrongHardware = "wrong-hardware"
        case counterTooLow = "counter-too-low"
        case requiresNewer = "requires-newer"
    }
    public var code: Code
    /// Describes the problem to the user, without a full stop at the end.
    public var context: String

    public init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    public static func == (left: VerificationError, right: VerificationError) -> Bool { left.code == right.code }
}

/// Why a bundle or an image is not accepted. Compared on the code.
public struct VerificationError: Error, Sendable, Equatable {
    /// Stable: what a script compares.
    public enum Code: String, Sendable, CaseIterable {
        /// A field that must be understood, and is not.
        case unknownCriticalField = "unknown-critical-field"
        /// None of the keys that signed is trusted.
        case untrustedKey = "untrusted-key"
        /// A trusted key signed, whose scope does not cover the file.
        case keyOutOfScope = "key-out-of-scope"
        /// A signature by a trusted key does not hold.
        case badSignature = "bad-signature"
        /// The image is not the one that was signed.
        case digestMismatch = "digest-mismatch"
        // Of an MCUboot image.
        /// It carries no signature.
        case notSigned = "not-signed"
        /// Its signature is of an algorithm that cannot be checked here.
        case unsupportedSignature = "unsupported-signature"
        /// It carries no digest.
        case noDigest = "no-digest"
        /// Nobody but the device can check its digest.
        case encryptedImage = "encrypted-image"
        /// It says something twice, or where it does not belong: a bootloader may take the other one.
        case ambiguousImage = "ambiguous-image"
        // Signed and whole, but not what was asked for.
        case demoKey = "demo-key"
        case wrongProduct = "wrong-product"
        case wrongHardware = "wrong-hardware"
        case counterTooLow = "counter-too-low"
        case requiresNewer = "requires-newer"
    }
    public var code: Code
    /// For people: what was seen, without a full stop.
    public var context: String

    public init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    public static func == (left: VerificationError, right: VerificationError) -> Bool { left.code == right.code }
}

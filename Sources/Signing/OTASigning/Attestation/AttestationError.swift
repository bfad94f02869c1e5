/// The reason why an attestation is not accepted. Two errors are equal if their codes are equal.
package struct AttestationError: Error, Sendable, Equatable {
    /// Identifies the error for scripts. The raw values do not change between releases.
    package enum Code: String, Sendable, CaseIterable {
        /// The file is not a list of DSSE envelopes with in-toto statements, or it exceeds a limit.
        case malformed = "attestation-malformed"
        /// No trusted key signed the attestation. A key whose scope does not cover the bundle, or whose partner did not sign the
        /// attestation, does not count. The demo key counts only if the policy allows it.
        case untrusted = "attestation-untrusted"
        /// No signature by a trusted key is valid, and one of the signatures names a trusted key.
        case badSignature = "attestation-bad-signature"
        /// libcrypto does not support the algorithm of a trusted key, so a signature could not be checked.
        case unsupportedOpenSSL = "unsupported-openssl"
        /// A call of libcrypto failed unexpectedly, so a signature could not be checked.
        case cryptography = "crypto-failed"
        /// The subjects of the attestation contain neither the bundle nor its manifest.
        case differs = "attestation-differs"
    }
    package var code: Code
    /// A description of the problem for the user, without a full stop at the end.
    package var context: String

    package init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    package static func == (left: AttestationError, right: AttestationError) -> Bool { left.code == right.code }

    /// Returns this error with the number of a line in front of the text of `context`.
    func at(line: Int) -> AttestationError { AttestationError(code, "line \(line): \(context)") }
}

/// The reason why an attestation is not accepted. Two errors are equal if their codes are equal.
package struct AttestationError: Error, Sendable, Equatable {
    /// Identifies the error for scripts. The raw values do not change between releases.
    package enum Code: String, Sendable, CaseIterable {
        /// The file is not a list of DSSE envelopes with in-toto statements, or it exceeds a limit.
        case malformed = "attestation-malformed"
        /// No trusted key signed the attestation. A key whose scope does not cover the bundle does not count, and the demo key counts only
        /// if the policy allows it.
        case untrusted = "attestation-untrusted"
        /// No signature by a trusted key is valid, and one of the signatures names a trusted key.
        case badSignature = "attestation-bad-signature"
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

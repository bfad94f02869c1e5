import OTASigning

extension Failure {
    /// Creates the failure for an error of an attestation. The error's context contains the number of the line. The caller adds the name of
    /// the file.
    init(_ error: AttestationError, in invocation: Invocation) {
        let (exit, hint) = Self.advice(for: error.code, in: invocation)
        self.init(
            error.code.rawValue, exit, error.context.isEmpty ? error.code.rawValue : error.context, hint: hint)
    }

    private static func advice(
        for code: AttestationError.Code, in invocation: Invocation
    ) -> (ExitStatus, hint: String) {
        let attest = Invocation(command: "attest", file: invocation.file ?? "BUNDLE").line(adding: "--key KEY.pem")
        return switch code {
        case .malformed:
            (
                .malformed,
                "fetch the file again; it must have one DSSE envelope on each line: jq -c . ENVELOPE.json >> FILE.intoto.jsonl"
            )
        case .untrusted:
            (
                .refused,
                "if you trust the signer, give its public key: \(invocation.line(adding: "--attestation-trust KEY.pub.pem"))"
            )
        case .badSignature:
            (.refused, "do not use the attestation: it was changed after it was signed; fetch it again from its source")
        case .unsupportedOpenSSL: (.unavailable, unsupportedOpenSSLHint)
        case .cryptography: (.fault, "check that memory is free, and check the version of libcrypto: openssl version")
        case .differs:
            (.refused, "get the attestation of this bundle; or create one: \(attest)")
        }
    }
}

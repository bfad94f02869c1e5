package import OTAFirmware

/// An attestation that a `Verifier` accepted for a bundle. At least one trusted key has signed the attestation. The subjects of the
/// attestation contain the bundle file or the bundle's manifest.
package struct VerifiedAttestation: Sendable {
    /// The part of the bundle that is a subject of the statement.
    package enum Match: String, Sendable {
        /// The bundle file itself.
        case bundle
        /// The manifest, but not the bundle file itself. The statement was made for another bundle file of the same release, with other
        /// signatures.
        case manifest
    }
    package let statement: Statement
    /// The IDs of the trusted keys that have signed the attestation.
    package let signers: [KeyID]
    package let match: Match
}

extension Verifier {
    /// Verifies all attestations in a file. Each attestation must be signed by a trusted key whose scope covers the bundle. The subjects of
    /// each attestation must contain the bundle or its manifest. This method checks only one condition of the policy: `allowsDemoKey`.
    ///
    /// An attestation of the image alone is not sufficient: the same image with another version or counter is another release.
    ///
    /// - Throws: `attestation-untrusted`, `attestation-bad-signature`, `attestation-differs`; `unsupported-openssl`, `crypto-failed`;
    ///   `attestation-malformed` if a statement is malformed. The context starts with the number of the attestation's line in the file.
    package func verify(
        _ file: AttestationFile, of bundle: VerifiedBundle
    ) throws(AttestationError) -> [VerifiedAttestation] {
        let digest = bundle.bundle.fileDigest
        var attestations: [VerifiedAttestation] = []
        for (index, envelope) in file.envelopes.enumerated() {
            do throws(AttestationError) {
                let signers = try signers(of: envelope, for: bundle.manifest)
                let statement = try Statement(parsing: envelope.payload)
                let match = try match(statement, digest, bundle.manifestDigest)
                attestations.append(VerifiedAttestation(statement: statement, signers: signers, match: match))
            } catch {
                throw error.at(line: index + 1)
            }
        }
        return attestations
    }

    private func match(
        _ statement: Statement, _ bundle: SHA256Digest, _ manifest: SHA256Digest
    ) throws(AttestationError) -> VerifiedAttestation.Match {
        let digests = statement.subjects.map(\.digest)
        if digests.contains(bundle) { return .bundle }
        if digests.contains(manifest) { return .manifest }
        let names = statement.subjects.prefix(3).map { $0.name ?? "a file without a name" }
        let more = statement.subjects.count > names.count ? " and \(statement.subjects.count - names.count) more" : ""
        throw AttestationError(
            .differs,
            "the attestation is about other files, with other contents: \(names.joined(separator: ", "))\(more)")
    }

    /// Returns the IDs of the trusted keys that have signed the envelope. A key does not count if its scope does not cover the bundle, if
    /// its partner did not sign the envelope, or if it is the demo key and the policy does not allow it. Throws the reason if no key is
    /// left.
    private func signers(
        of envelope: AttestationEnvelope, for manifest: Manifest
    ) throws(AttestationError) -> [KeyID] {
        let valid: [KeyID]
        do throws(KeyError) { valid = try envelope.signers(among: trust.keys).map(\.id) } catch {
            throw AttestationError(
                error.code == .unsupportedOpenSSL ? .unsupportedOpenSSL : .cryptography,
                "the signature could not be checked: \(error.context)")
        }
        let covered = valid.filter { trust.scope(of: $0)?.covers(manifest) ?? true }
        let complete = covered.filter { key in trust.scope(of: key)?.partner.map(covered.contains) ?? true }
        let signers = complete.filter { policy.allowsDemoKey || $0 != DemoKey.id }
        guard signers.isEmpty else { return signers }
        if complete.isEmpty, let key = covered.first, let partner = trust.scope(of: key)?.partner {
            throw AttestationError(
                .untrusted,
                "signed by the trusted key \(key), which counts only together with the key \(partner); there is no valid signature by \(partner)"
            )
        }
        if !complete.isEmpty {
            throw AttestationError(
                .untrusted, "signed only by the demo key, whose private key is public, so the signature proves nothing")
        }
        if let key = valid.first, let scope = trust.scope(of: key) {
            throw AttestationError(
                .untrusted, "signed by the trusted key \(key), but \(scope.file) limits it to \(scope)")
        }
        let names = envelope.signatures.compactMap(\.keyID)
        let trusted = Set(trust.keys.map(\.id.description))
        if let key = names.first(where: trusted.contains) {
            throw AttestationError(.badSignature, "the signature that names the trusted key \(key) is invalid")
        }
        let named = names.map { String($0.prefix(64)) }.joined(separator: ", ")
        throw AttestationError(
            .untrusted, "not signed by a trusted key\(names.isEmpty ? "" : "; the signatures name the keys \(named)")")
    }
}

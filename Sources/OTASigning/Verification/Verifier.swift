public import OTAFirmware

/// Decides whether a bundle is accepted (docs/bundle-format.md, "Signatures").
public struct Verifier: Sendable {
    public let trust: TrustStore
    public let policy: TrustPolicy

    public init(trust: TrustStore, policy: TrustPolicy = TrustPolicy()) {
        self.trust = trust
        self.policy = policy
    }

    /// Verifies a bundle, in this order:
    ///
    /// 1. All critical fields are known.
    /// 2. At least one signature by a trusted key is valid, and none is invalid.
    /// 3. The image's digest matches the manifest.
    /// 4. The policy allows the bundle.
    ///
    /// No message describes the contents of a bundle before its signer is verified.
    ///
    /// - Throws: `unknown-critical-field`, `bad-signature`, `untrusted-key`, `key-out-of-scope`, `digest-mismatch`; the errors of the
    ///   policy.
    public func verify(_ bundle: SignedBundle) throws(VerificationError) -> VerifiedBundle {
        let manifest = bundle.envelope.manifest
        let signatures = try verify(bundle.envelope)
        guard bundle.image.count == manifest.imageSize, SHA256.digest(of: bundle.image) == manifest.imageDigest else {
            throw VerificationError(.digestMismatch, "the image is not the one that was signed")
        }
        try policy.check(manifest, signers: signatures.signers)
        return VerifiedBundle(bundle: bundle, signatures: signatures)
    }

    /// Returns the result for each signature in the bundle's order, whether the bundle is accepted or not.
    public func report(on envelope: Envelope) -> [SignatureReport] {
        envelope.signatures.map { signature in
            let key = trust[signature.keyID]
            let isCovered = trust.scope(of: signature.keyID)?.covers(envelope.manifest) ?? true
            let trusted = isCovered ? key : nil
            return SignatureReport(
                keyID: signature.keyID, algorithm: signature.algorithm, trusted: trusted != nil,
                isOutOfScope: key != nil && !isCovered,
                valid: trusted?.verify(signature: signature.signature, message: envelope.manifestBytes))
        }
    }

    /// Checks the critical fields and the signatures.
    private func verify(_ envelope: Envelope) throws(VerificationError) -> [SignatureReport] {
        if let field = envelope.manifest.unknownCriticalFields.first {
            throw VerificationError(
                .unknownCriticalField,
                "\(field.label) must be understood, and this release does not know it")
        }
        let signatures = report(on: envelope)
        if let failed = signatures.first(where: { $0.valid == false }) {
            throw VerificationError(.badSignature, "the signature by the trusted key \(failed.keyID) does not hold")
        }
        guard !signatures.signers.isEmpty else {
            if let limited = envelope.signatures.first(where: { trust[$0.keyID] != nil }) {
                throw refusal(of: limited, envelope)
            }
            let ids = signatures.map(\.keyID.description).joined(separator: ", ")
            throw VerificationError(.untrustedKey, "signed by \(ids), and no such key is trusted")
        }
        return signatures
    }

    /// Returns the error for a signature by a trusted key whose scope does not cover the bundle.
    ///
    /// An invalid signature is reported first, so that the user does not extend a scope for a forged bundle.
    private func refusal(of signature: BundleSignature, _ envelope: Envelope) -> VerificationError {
        let key = trust[signature.keyID]
        guard key?.verify(signature: signature.signature, message: envelope.manifestBytes) == true else {
            return VerificationError(
                .badSignature, "the signature by the trusted key \(signature.keyID) does not hold")
        }
        return outOfScope(signature.keyID, "the file is a bundle of \(envelope.manifest.product)")
    }

    /// Returns the error for a key whose scope does not cover the file.
    ///
    /// - Parameter what: the kind of file, as a text for the user.
    func outOfScope(_ key: KeyID, _ what: String) -> VerificationError {
        let limit = trust.scope(of: key).map { "\($0.file) limits it to \($0)" } ?? ""
        return VerificationError(.keyOutOfScope, "signed by the trusted key \(key), and \(limit); \(what)")
    }
}

extension ManifestField {
    /// The field's name in messages, for example `field 0x8007`.
    var label: String { "field 0x\(Hex.encode([UInt8(type >> 8), UInt8(type & 0xff)]))" }
}

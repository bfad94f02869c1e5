public import OTAFirmware

/// A bundle that a `Verifier` accepted. Only a `Verifier` can create it, so a value of this type proves the verification.
public struct VerifiedBundle: Sendable {
    public let bundle: SignedBundle
    /// The SHA-256 of the manifest, which identifies the release.
    public let manifestDigest: SHA256Digest
    /// The SHA-256 of the envelope (manifest and signatures).
    public let envelopeDigest: SHA256Digest
    /// The signatures in the bundle's order.
    public let signatures: [SignatureReport]

    init(bundle: SignedBundle, signatures: [SignatureReport]) {
        self.bundle = bundle
        self.signatures = signatures
        manifestDigest = SHA256.digest(of: bundle.envelope.manifestBytes)
        envelopeDigest = SHA256.digest(of: bundle.envelope.bytes)
    }

    /// The trusted keys with valid signatures, at least one.
    public var signers: [KeyID] { signatures.signers }
}

extension [SignatureReport] {
    var signers: [KeyID] { filter { $0.valid == true }.map(\.keyID) }
}

public import OTAFirmware

/// A bundle that a `Verifier` accepted. Nothing else can make one: who holds it holds the proof.
public struct VerifiedBundle: Sendable {
    public let bundle: SignedBundle
    /// SHA-256 of the manifest: the release's name.
    public let manifestDigest: SHA256Digest
    /// SHA-256 of manifest and signatures.
    public let envelopeDigest: SHA256Digest
    /// In the bundle's order.
    public let signatures: [SignatureReport]

    init(bundle: SignedBundle, signatures: [SignatureReport]) {
        self.bundle = bundle
        self.signatures = signatures
        manifestDigest = SHA256.digest(of: bundle.envelope.manifestBytes)
        envelopeDigest = SHA256.digest(of: bundle.envelope.bytes)
    }

    /// The trusted keys whose signatures hold, at least one.
    public var signers: [KeyID] { signatures.signers }
}

extension [SignatureReport] {
    var signers: [KeyID] { filter { $0.valid == true }.map(\.keyID) }
}

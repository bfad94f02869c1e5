public import OTAFirmware

/// A bundle that a `Verifier` accepted. Only a `Verifier` can create it, so a value of this type proves the verification.
public struct VerifiedBundle: Sendable {
    public let bundle: SignedBundle
    /// The signatures in the bundle's order.
    public let signatures: [SignatureReport]
    /// The SHA-256 of the manifest, which identifies the release.
    public let manifestDigest: SHA256Digest
    /// The SHA-256 of the envelope (manifest and signatures).
    public let envelopeDigest: SHA256Digest

    init(bundle: SignedBundle, signatures: [SignatureReport]) {
        self.bundle = bundle
        self.signatures = signatures
        manifestDigest = SHA256.digest(of: bundle.envelope.manifestBytes)
        envelopeDigest = SHA256.digest(of: bundle.envelope.bytes)
    }

    /// The manifest and the signatures.
    public var envelope: Envelope { bundle.envelope }
    public var manifest: Manifest { bundle.envelope.manifest }
    /// The image's bytes.
    public var image: [UInt8] { bundle.image }
    /// The trusted keys with valid signatures, at least one.
    public var signers: [KeyID] { signatures.signers }

    /// Returns the MCUboot image in the bundle. The signers of the bundle authorize it. The image's own signature is not checked.
    ///
    /// - Throws: `wrong-image-format` if the bundle contains another kind of image; the errors of `MCUbootFile`.
    public func mcubootImage() throws(ImageError) -> VerifiedImage {
        VerifiedImage(try MCUbootFile(parsing: image), authorization: .bundle(signers), manifest: manifest)
    }
}

/// The result of the checks of one signature of a bundle.
public struct SignatureReport: Sendable, Equatable {
    public let keyID: KeyID
    public let algorithm: BundleSignature.Algorithm
    /// Whether a trusted key has this ID and its scope covers the bundle.
    public let trusted: Bool
    /// Whether a trusted key has this ID and its scope does not cover the bundle.
    public let isOutOfScope: Bool
    /// Whether the signature is valid; nil if `trusted` is false.
    public let valid: Bool?
}

extension [SignatureReport] {
    var signers: [KeyID] { filter { $0.valid == true }.map(\.keyID) }
}

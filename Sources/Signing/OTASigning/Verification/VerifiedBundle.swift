public import OTAFirmware

/// A bundle that a `Verifier` accepted. Only a `Verifier` can create a value of this type. A function with a parameter of this type
/// therefore never receives an unverified bundle.
public struct VerifiedBundle: Sendable {
    public let bundle: SignedBundle
    /// The results for all signatures, in the same order as in the bundle.
    public let signatures: [SignatureReport]
    /// The SHA-256 of the manifest. This digest identifies the release.
    public let manifestDigest: SHA256Digest
    /// The SHA-256 of the envelope (manifest and signatures).
    public let envelopeDigest: SHA256Digest

    /// The number of signers of the bundle. Without consent to the demo key, this key does not count.
    public let signerCount: SignerCount

    /// The path of the policy that refuses a version that is lower than the running one (``FolderPolicy``). Nil means that no policy
    /// refuses it.
    public let downgradeRefusal: String?

    init(
        bundle: SignedBundle, signatures: [SignatureReport], signerCount: SignerCount, downgradeRefusal: String?
    ) {
        self.bundle = bundle
        self.signatures = signatures
        self.signerCount = signerCount
        self.downgradeRefusal = downgradeRefusal
        manifestDigest = SHA256.digest(of: bundle.envelope.manifestBytes)
        envelopeDigest = SHA256.digest(of: bundle.envelope.bytes)
    }

    /// The manifest and the signatures.
    public var envelope: Envelope { bundle.envelope }
    public var manifest: Manifest { bundle.envelope.manifest }
    /// The image's bytes.
    public var image: [UInt8] { bundle.image }
    /// The IDs of the trusted keys whose signatures are valid, and whose partners have signed, too. The list has at least one ID.
    public var signers: [KeyID] { signatures.signers }

    /// Returns the MCUboot image in the bundle. The image's own signature is not checked, because trusted keys have signed the bundle.
    ///
    /// - Throws: `wrong-image-format` if the bundle's image is not an MCUboot image; the errors of `MCUbootFile`.
    public func mcubootImage() throws(ImageError) -> VerifiedImage {
        VerifiedImage(
            try MCUbootFile(parsing: image), authorization: .bundle(signers), manifest: manifest,
            downgradeRefusal: downgradeRefusal)
    }
}

extension VerifiedBundle {
    /// Checks that a device that runs the release in `previous` can install this bundle.
    ///
    /// - Throws: the errors of `check(after:)` of the manifest; `no-common-signer` if no trusted key signed both bundles.
    public func check(after previous: VerifiedBundle) throws(VerificationError) {
        try manifest.check(after: previous.manifest)
        guard !Set(signers).isDisjoint(with: previous.signers) else {
            let signed = previous.signers.map(\.description).joined(separator: ", ")
            throw VerificationError(
                .noCommonSigner, "not signed by a key that signed the previous bundle (\(signed))")
        }
    }

    /// Returns whether this bundle supports all hardware revisions that `previous` supports.
    public func keepsHardware(of previous: VerifiedBundle) -> Bool {
        guard let revisions = manifest.hardware else { return true }
        return previous.manifest.hardware.map(revisions.contains) ?? revisions.contains(0...UInt16.max)
    }
}

extension Manifest {
    /// Checks that this release can follow the release of another manifest.
    ///
    /// - Throws: `wrong-product` for another product; `version-not-raised` if the version is not newer; `counter-lowered` if the security
    ///   counter is lower; `requires-newer` if this release requires a newer version than the version of `old`.
    package func check(after old: Manifest) throws(VerificationError) {
        guard product == old.product else {
            throw VerificationError(
                .wrongProduct, "the bundle is for \(product), and the previous one is for \(old.product)")
        }
        guard version.takesPrecedence(over: old.version) else {
            throw VerificationError(
                .versionNotRaised, "version \(version) is not newer than the previous version \(old.version)")
        }
        guard securityCounter >= old.securityCounter else {
            throw VerificationError(
                .counterLowered,
                "the security counter is \(securityCounter), and the previous one is \(old.securityCounter)")
        }
        if let requires, !requires.isSatisfied(by: old.version) {
            throw VerificationError(
                .requiresNewer,
                "the bundle requires version \(requires) or later; the previous version is \(old.version)")
        }
    }
}

/// The result of the verification of one signature in a bundle.
public struct SignatureReport: Sendable, Equatable {
    public let keyID: KeyID
    /// Nil if this version of otaflash does not know the algorithm.
    public let algorithm: SignatureAlgorithm?
    /// True if the trust store contains the key, and the key's scope covers the bundle.
    public let trusted: Bool
    /// True if the trust store contains the key, and the key's scope excludes the bundle.
    public let isOutOfScope: Bool
    /// Whether the signature is valid. The value is nil if the signature was not checked: because `trusted` is false, or for the reason in
    /// `failure`.
    public let valid: Bool?
    /// The reason why the signature of a trusted key could not be checked, such as a libcrypto without ML-DSA.
    public let failure: KeyError?
    /// The partner of the key (`TrustScope.partner`), if the signature is valid, but that of the partner is not. The key then does not
    /// count.
    public internal(set) var missingPartner: KeyID?
}

extension [SignatureReport] {
    var signers: [KeyID] { filter { $0.valid == true && $0.missingPartner == nil }.map(\.keyID) }
}

public import OTAFirmware
internal import SystemPackage

/// Verifies bundles (docs/bundle-format.md, "Signatures") and MCUboot images with the keys of a trust store and the conditions of a policy.
public struct Verifier: Sendable {
    public let trust: TrustStore
    public let policy: TrustPolicy

    public init(trust: TrustStore, policy: TrustPolicy = TrustPolicy()) {
        self.trust = trust
        self.policy = policy
    }

    /// Verifies a bundle. The conditions are checked in this order:
    ///
    /// 1. The manifest contains no unknown critical field.
    /// 2. At least one signature by a trusted key is valid, and no signature by a trusted key is invalid. A key counts as trusted only if
    ///    its scope covers the bundle. A key with a partner counts only if the signature of the partner is valid, too.
    /// 3. The image's size and digest match the manifest.
    /// 4. The policy and the policy of the trusted keys (``FolderPolicy``) accept the bundle. This check comes last, because its error
    ///    messages contain values of the manifest, and only a manifest with valid signatures is authentic.
    ///
    /// - Throws: `unknown-critical-field`, `bad-signature`, `untrusted-key`, `key-out-of-scope`, `partner-missing`, `digest-mismatch`;
    ///   `unsupported-openssl`, `crypto-failed` if the signature of a trusted key could not be checked; the errors of the policy.
    public func verify(_ bundle: SignedBundle) throws(VerificationError) -> VerifiedBundle {
        let manifest = bundle.envelope.manifest
        let signatures = try verify(bundle.envelope)
        guard bundle.image.count == manifest.imageSize, SHA256.digest(of: bundle.image) == manifest.imageDigest else {
            throw VerificationError(.digestMismatch, "the digest of the image does not match the signed manifest")
        }
        let count = trust.count(of: policy.counted(signatures.signers))
        try policy.check(manifest, signers: signatures.signers, count)
        try trust.policy.check(count)
        return VerifiedBundle(
            bundle: bundle, signatures: signatures, signerCount: count,
            downgradeRefusal: trust.policy.downgradeRefusal?.string)
    }

    /// Checks each signature and returns the results, in the same order as in the envelope. This method does not throw an error for an
    /// invalid signature.
    public func report(on envelope: Envelope) -> [SignatureReport] {
        var reports = envelope.signatures.map { report(on: $0, envelope.manifest) }
        let valid = Set(reports.filter { $0.valid == true }.map(\.keyID))
        for index in reports.indices where reports[index].valid == true {
            guard let partner = trust.scope(of: reports[index].keyID)?.partner, !valid.contains(partner) else {
                continue
            }
            reports[index].missingPartner = partner
        }
        return reports
    }

    private func report(on signature: BundleSignature, _ manifest: Manifest) -> SignatureReport {
        let key = trust[signature.keyID]
        let isCovered = trust.scope(of: signature.keyID)?.covers(manifest) ?? true
        let trusted = isCovered ? key : nil
        let valid: Result<Bool, KeyError>? = trusted.map { key in
            Result { () throws(KeyError) in try Self.isValid(signature, by: key, manifest) }
        }
        return SignatureReport(
            keyID: signature.keyID, algorithm: signature.algorithm, trusted: trusted != nil,
            isOutOfScope: key != nil && !isCovered, valid: try? valid?.get(), failure: valid?.failure)
    }

    /// Returns whether a signature of a manifest is valid. An entry with another algorithm than that of the key is invalid, because an
    /// entry with the key's ID claims to be a signature by this key.
    ///
    /// - Throws: `unsupported-openssl`, `crypto-failed` if the signature could not be checked.
    private static func isValid(
        _ signature: BundleSignature, by key: PublicKey, _ manifest: Manifest
    ) throws(KeyError) -> Bool {
        guard signature.algorithm == key.algorithm else { return false }
        return try key.verify(signature: signature.signature, message: manifest.bytes, in: .bundle)
    }

    /// Checks that all critical fields are known and that a trusted key signed the manifest. Returns the results for all signatures.
    ///
    /// - Throws: `unknown-critical-field`, `bad-signature`, `untrusted-key`, `key-out-of-scope`, `partner-missing`, `unsupported-openssl`,
    ///   `crypto-failed`.
    private func verify(_ envelope: Envelope) throws(VerificationError) -> [SignatureReport] {
        if let field = envelope.manifest.unknownCriticalFields.first {
            throw VerificationError(
                .unknownCriticalField,
                "the critical \(field.label) is unknown to this release of otaflash")
        }
        let signatures = report(on: envelope)
        if let failed = signatures.first(where: { $0.valid == false }) {
            throw VerificationError(.badSignature, "the signature by the trusted key \(failed.keyID) is invalid")
        }
        if let failure = signatures.lazy.compactMap(\.failure).first { throw VerificationError(failure) }
        guard !signatures.signers.isEmpty else {
            for signature in signatures {
                if let partner = signature.missingPartner { throw missing(partner, of: signature.keyID) }
            }
            if let limited = envelope.signatures.first(where: { trust[$0.keyID] != nil }) {
                throw refusal(of: limited, envelope)
            }
            let ids = signatures.map(\.keyID.description).joined(separator: ", ")
            throw VerificationError(.untrustedKey, "not signed by a trusted key; signed by \(ids)")
        }
        return signatures
    }

    /// Returns the error for a signature that names a trusted key, if the key's scope does not cover the bundle.
    ///
    /// The error is `bad-signature` if the signature is invalid, and `key-out-of-scope` if the signature is valid. The difference is
    /// important. After `key-out-of-scope`, the user may decide to extend the scope of the key. A forged bundle must not cause this
    /// decision.
    private func refusal(of signature: BundleSignature, _ envelope: Envelope) -> VerificationError {
        do throws(KeyError) {
            if let key = trust[signature.keyID], try Self.isValid(signature, by: key, envelope.manifest) {
                return outOfScope(signature.keyID, "the file is a bundle of \(envelope.manifest.product)")
            }
            return VerificationError(.badSignature, "the signature by the trusted key \(signature.keyID) is invalid")
        } catch {
            return VerificationError(error)
        }
    }

    /// Returns the error for a valid signature by a key whose partner has not signed.
    private func missing(_ partner: KeyID, of key: KeyID) -> VerificationError {
        let file = trust.scope(of: key).map { " (\($0.file))" } ?? ""
        return VerificationError(
            .partnerMissing,
            "signed by the trusted key \(key), which counts only together with the key \(partner)\(file), and there is no valid signature by \(partner)"
        )
    }

    /// Returns the error for a key whose scope does not cover the file.
    ///
    /// - Parameter what: the description of the file, for the end of the message.
    func outOfScope(_ key: KeyID, _ what: String) -> VerificationError {
        let limit = trust.scope(of: key).map { "\($0.file) limits it to \($0)" } ?? ""
        return VerificationError(.keyOutOfScope, "signed by the trusted key \(key), but \(limit); \(what)")
    }
}

extension Verifier {
    /// Verifies an MCUboot image. The digest in the image must match the image's bytes, a trusted key must have signed the image, and the
    /// policy must accept the image. An image without a digest is accepted only with a pure signature, because a pure signature covers the
    /// bytes themselves.
    ///
    /// - Throws: `ambiguous-image`, `encrypted-image`, `no-digest`, `digest-mismatch`, `not-signed`, `unsupported-signature`,
    ///   `untrusted-key`, `bad-signature`, `key-out-of-scope`; the errors of the policy.
    public func verify(_ file: MCUbootFile) throws(VerificationError) -> VerifiedImage {
        let digest = try checkedDigest(of: file)
        let signature = try MCUbootSignature(of: file.image)
        guard let key = trustedKey(named: signature.keyTLV) else {
            throw VerificationError(.untrustedKey, Self.untrustedKeyReason(signature.keyTLV))
        }
        guard digest != nil || signature.isPure else {
            throw VerificationError(.noDigest, "the signature is over a digest that the image does not contain")
        }
        guard key.algorithm == signature.algorithm else {
            throw VerificationError(
                .badSignature,
                "the image has a signature for \(signature.algorithm.name), but the trusted key \(key.id) that it names is for "
                    + key.algorithm.name)
        }
        guard try Self.isValid(signature, by: key, over: file.signedBytes, digest: digest) else {
            throw VerificationError(.badSignature, "the signature by the trusted key \(key.id) is invalid")
        }
        guard trust.scope(of: key.id)?.coversImages ?? true else {
            throw outOfScope(key.id, "the file is an MCUboot image")
        }
        let count = trust.count(of: policy.counted([key.id]))
        try policy.check(file.image, signer: (key.id, count))
        try trust.policy.check(count)
        return VerifiedImage(
            file, authorization: .signature(key.id), downgradeRefusal: trust.policy.downgradeRefusal?.string)
    }

    /// Returns whether `signature` is a valid signature by `key`.
    ///
    /// - Parameters:
    ///   - bytes: the signed bytes: header, body and protected TLVs.
    ///   - digest: the digest of the signed bytes. It is nil if the image contains no digest.
    private static func isValid(
        _ signature: MCUbootSignature, by key: ImagePublicKey, over bytes: ArraySlice<UInt8>, digest: [UInt8]?
    ) throws(VerificationError) -> Bool {
        guard let ed25519 = key.bundleKey else {
            return key.verify(signature: signature.bytes, ofDigestOf: bytes)
        }
        guard let message = signature.isPure ? Array(bytes) : digest else { return false }
        do throws(KeyError) { return try ed25519.verify(signature: signature.bytes, message: message) } catch {
            throw VerificationError(error)
        }
    }

    /// Verifies an image like `verify(_:)`, but also accepts an image that no trusted key authorizes. Call this method only with the user's
    /// consent.
    ///
    /// The consent overrides only the errors that `Consent.reason` lists, and no policy of the trusted keys that requires signatures. If
    /// `verify(_:)` accepts the image, this method returns the result of `verify(_:)`.
    ///
    /// - Throws: `ambiguous-image`, `no-digest`, `digest-mismatch`, `bad-signature`, `key-out-of-scope`; the errors of the policy.
    public func accept(_ file: MCUbootFile) throws(VerificationError) -> VerifiedImage {
        do {
            return try verify(file)
        } catch {
            guard let consent = Consent(to: error) else { throw error }
            if !file.image.isEncrypted, try checkedDigest(of: file) == nil {
                throw VerificationError(.noDigest, "the image has no digest, so damage cannot be detected")
            }
            try policy.check(file.image, signer: nil)
            try trust.policy.check(SignerCount([]))
            return VerifiedImage(
                file, authorization: .consent(consent), downgradeRefusal: trust.policy.downgradeRefusal?.string)
        }
    }

    /// Checks that the image's digest matches the image's bytes, and returns this digest. The result is nil if the image contains no
    /// digest.
    ///
    /// - Throws: `encrypted-image`, `ambiguous-image`, `digest-mismatch`.
    private func checkedDigest(of file: MCUbootFile) throws(VerificationError) -> [UInt8]? {
        guard !file.image.isEncrypted else {
            throw VerificationError(.encryptedImage, "the image is encrypted, so only the device can check its digest")
        }
        guard let carried = try MCUbootSignature.only(file.image, MCUbootTLV.digestTypes, "digest") else {
            return nil
        }
        let computed: [UInt8] =
            switch carried.type {
            case MCUbootTLV.sha384: MessageDigest.sha384.digest(of: file.signedBytes)
            case MCUbootTLV.sha512: MessageDigest.sha512.digest(of: file.signedBytes)
            default: SHA256.digest(of: file.signedBytes).bytes
            }
        guard carried.value == computed else {
            throw VerificationError(
                .digestMismatch, "the \(carried.name ?? "digest") in the image does not match its bytes")
        }
        return computed
    }

    /// Returns the trusted key that a KEYHASH or PUBKEY TLV names. Returns nil if `tlv` is nil or names no trusted key.
    func trustedKey(named tlv: MCUbootTLV?) -> ImagePublicKey? {
        guard let tlv else { return nil }
        return trust.imageKeys.first { key in
            let encoded = key.encoded
            guard tlv.type == MCUbootTLV.keyHash else { return tlv.value == encoded }
            // imgtool computes the KEYHASH with the algorithm of the image digest: SHA-256 (32 bytes), or SHA-512 (64 bytes), which only
            // Ed25519 keys support. MCUboot refuses a KEYHASH that is longer than the image digest (bootutil_find_key.c).
            return switch (tlv.value.count, key.algorithm) {
            case (32, _): tlv.value == SHA256.digest(of: encoded).bytes
            case (64, .ed25519): tlv.value == MessageDigest.sha512.digest(of: encoded[...])
            default: false
            }
        }
    }

    private static func untrustedKeyReason(_ tlv: MCUbootTLV?) -> String {
        guard let tlv else { return "the image does not name its signer" }
        guard tlv.type == MCUbootTLV.keyHash else {
            return "the public key in the image is not a trusted key"
        }
        return "signed by the key with the hash \(Hex.encode(tlv.value.prefix(8)))…, which is not a trusted key"
    }
}

/// The reason why a bundle or an image is not accepted. Two errors are equal if their codes are equal.
public struct VerificationError: Error, Sendable, Equatable {
    /// Identifies the error for scripts. The raw values do not change between releases.
    public enum Code: String, Sendable, CaseIterable {
        /// The manifest contains an unknown critical field.
        case unknownCriticalField = "unknown-critical-field"
        /// No trusted key signed the bundle or the image.
        case untrustedKey = "untrusted-key"
        /// A trusted key signed the file, but the key's scope does not cover the file.
        case keyOutOfScope = "key-out-of-scope"
        /// A key of a pair signed the file, and the other key of the pair did not (`TrustScope.partner`).
        case partnerMissing = "partner-missing"
        /// libcrypto does not support the algorithm of a trusted key, so the signature by this key could not be checked.
        case unsupportedOpenSSL = "unsupported-openssl"
        /// A call of libcrypto failed unexpectedly, so the signature by a trusted key could not be checked.
        case cryptography = "crypto-failed"
        /// A signature by a trusted key is invalid.
        case badSignature = "bad-signature"
        /// The bytes of the image do not match the digest in the bundle's manifest or in the MCUboot image.
        case digestMismatch = "digest-mismatch"
        // The next errors apply only to MCUboot images.

        /// The image has no signature.
        case notSigned = "not-signed"
        /// otaflash does not support the signature algorithm, or the combination of the algorithm and the type of digest.
        case unsupportedSignature = "unsupported-signature"
        /// The image has no digest.
        case noDigest = "no-digest"
        /// The image is encrypted, so only the device can check its digest.
        case encryptedImage = "encrypted-image"
        /// The image contains a TLV twice, in the wrong area or with an invalid value, so the bootloader and otaflash could interpret the
        /// image differently.
        case ambiguousImage = "ambiguous-image"
        // The next errors mean that the bundle or image does not meet a condition of the policy (`TrustPolicy`).
        case demoKey = "demo-key"
        case wrongProduct = "wrong-product"
        case wrongHardware = "wrong-hardware"
        case counterTooLow = "counter-too-low"
        case requiresNewer = "requires-newer"
        /// Fewer trusted keys have signed the bundle or image than the policy requires.
        case tooFewSignatures = "too-few-signatures"
        // The next errors mean that devices that run the previous release cannot install the bundle (`VerifiedBundle.check(after:)`).
        case versionNotRaised = "version-not-raised"
        case counterLowered = "counter-lowered"
        /// No trusted key signed both the bundle and the previous bundle.
        case noCommonSigner = "no-common-signer"
    }
    public var code: Code
    /// A description of the problem for the user, without a full stop at the end.
    public var context: String

    public init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    /// Creates the error for a signature that could not be checked.
    init(_ failure: KeyError) {
        self.init(
            failure.code == .unsupportedOpenSSL ? .unsupportedOpenSSL : .cryptography,
            "the signature by a trusted key could not be checked: \(failure.context)")
    }

    public static func == (left: VerificationError, right: VerificationError) -> Bool { left.code == right.code }
}

extension ManifestField {
    /// The name of the field in messages, for example `field 0x8007`.
    var label: String { "field 0x\(Hex.encode([UInt8(type >> 8), UInt8(type & 0xff)]))" }
}

extension Result {
    fileprivate var failure: Failure? {
        switch self {
        case .success: nil
        case .failure(let error): error
        }
    }
}

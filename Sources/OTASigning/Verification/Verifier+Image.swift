internal import OTAFirmware

extension Verifier {
    /// Verifies an image. It must be complete, its digest must match, a trusted key's Ed25519 signature must be valid, and the policy
    /// must allow it.
    ///
    /// - Throws: `ambiguous-image`, `encrypted-image`, `no-digest`, `digest-mismatch`, `not-signed`,
    ///   `unsupported-signature`, `untrusted-key`, `bad-signature`, `key-out-of-scope`; the errors of the policy.
    public func verify(_ file: MCUbootFile) throws(VerificationError) -> VerifiedImage {
        let digest = try checkedDigest(of: file)
        let signature = try MCUbootSignature(of: file.image)
        guard let key = trustedKey(named: signature.keyTLV) else {
            throw VerificationError(.untrustedKey, Self.untrustedKeyReason(signature.keyTLV))
        }
        guard let message = signature.isPure ? Array(file.signedBytes) : digest else {
            throw VerificationError(.noDigest, "its signature is over a digest that it does not carry")
        }
        guard key.verify(signature: signature.bytes, message: message) else {
            throw VerificationError(.badSignature, "the signature by the trusted key \(key.id) does not hold")
        }
        guard trust.scope(of: key.id)?.coversImages ?? true else {
            throw outOfScope(key.id, "the file is an MCUboot image")
        }
        try policy.check(file.image, signer: key.id)
        return VerifiedImage(file, authorization: .signature(key.id))
    }

    /// Verifies an image, and also accepts an image that is not signed by a trusted key. The call expresses the user's consent.
    ///
    /// All other conditions stay the same. An image that a trusted key signed is authorized by that key, not by the consent.
    ///
    /// - Throws: `ambiguous-image`, `no-digest`, `digest-mismatch`, `bad-signature`, `key-out-of-scope`; the errors of the policy.
    public func accept(_ file: MCUbootFile) throws(VerificationError) -> VerifiedImage {
        do {
            return try verify(file)
        } catch {
            guard let consent = Consent(to: error) else { throw error }
            if !file.image.isEncrypted, try checkedDigest(of: file) == nil {
                throw VerificationError(.noDigest, "it carries no digest, so nobody can say whether it is whole")
            }
            try policy.check(file.image, signer: nil)
            return VerifiedImage(file, authorization: .consent(consent))
        }
    }

    /// Returns the image's digest after a comparison with its bytes; nil if the image contains no digest.
    private func checkedDigest(of file: MCUbootFile) throws(VerificationError) -> [UInt8]? {
        guard !file.image.isEncrypted else {
            throw VerificationError(.encryptedImage, "its body is encrypted, so only the device can check it")
        }
        guard let carried = try MCUbootSignature.only(file.image, MCUbootTLV.digestTypes, "a digest") else {
            return nil
        }
        let computed: [UInt8] =
            switch carried.type {
            case MCUbootTLV.sha384: MessageDigest.sha384.digest(of: file.signedBytes)
            case MCUbootTLV.sha512: MessageDigest.sha512.digest(of: file.signedBytes)
            default: SHA256.digest(of: file.signedBytes).bytes
            }
        guard carried.value == computed else {
            throw VerificationError(.digestMismatch, "its \(carried.name ?? "digest") is not that of its bytes")
        }
        return computed
    }

    /// Returns the trusted key that a KEYHASH or PUBKEY record names; nil if no trusted key matches.
    func trustedKey(named tlv: MCUbootTLV?) -> PublicKey? {
        guard let tlv else { return nil }
        return trust.keys.first { key in
            let info = key.subjectPublicKeyInfo
            guard tlv.type == MCUbootTLV.keyHash else { return tlv.value == info }
            return switch tlv.value.count {
            case 32: tlv.value == SHA256.digest(of: info).bytes
            case 48: tlv.value == MessageDigest.sha384.digest(of: info[...])
            case 64: tlv.value == MessageDigest.sha512.digest(of: info[...])
            default: false
            }
        }
    }

    private static func untrustedKeyReason(_ tlv: MCUbootTLV?) -> String {
        guard let tlv else { return "it does not say whose key has signed it" }
        guard tlv.type == MCUbootTLV.keyHash else {
            return "signed by a key that it brings along, and no such key is trusted"
        }
        return "signed by the key whose hash is \(Hex.encode(tlv.value.prefix(8)))…, and no such key is trusted"
    }
}

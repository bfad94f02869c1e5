public import OTAFirmware

/// The results of the checks of an MCUboot image, whether it is accepted or not.
public struct MCUbootReport: Sendable, Equatable {
    public struct Signature: Sendable, Equatable {
        /// imgtool's name of the algorithm, such as `ED25519` or `ECDSASIG`.
        public let algorithm: String
        /// Whether the signature is over the bytes themselves instead of their digest.
        public let isPure: Bool
        /// The digest of the signer's public key (`ImagePublicKey.encoded`) in the image: SHA-256, or SHA-512 in an image that uses
        /// SHA-512 throughout. Nil if the image does not name its signer, or contains the whole key.
        public let keyHash: [UInt8]?
        /// The trusted key that the image names. Nil if no trusted key matches, or if its scope excludes MCUboot images.
        public let keyID: KeyID?
        /// The trusted key that the image names, if its scope excludes MCUboot images.
        public let ignoredKeyID: KeyID?
        /// Whether the signature is valid; nil if it could not be checked.
        public let holds: Bool?
        /// The reason why the algorithm is not supported, as a text for the user; nil if it is supported.
        public let unsupported: String?

        /// Whether the image names a trusted key whose scope excludes MCUboot images.
        public var isOutOfScope: Bool { ignoredKeyID != nil }
    }

    /// imgtool's name of the digest, such as `SHA256`; nil if the image contains no digest.
    public let digest: String?
    /// Whether the digest matches the signed bytes; nil if it could not be checked.
    public let digestHolds: Bool?
    /// The signature; nil if the image is not signed.
    public let signature: Signature?
    /// Whether the image contains a record twice or in the wrong area.
    public let isAmbiguous: Bool
    /// The TLVs that no signature covers: those outside the protected area, except the digest, key and signature records.
    public let unsigned: [MCUbootTLV]
}

extension Verifier {
    /// Checks an image independently of the policy and returns the results.
    public func report(on file: MCUbootFile) -> MCUbootReport {
        var error: VerificationError?
        do throws(VerificationError) {
            _ = try Verifier(trust: trust, policy: .unrestricted).verify(file)
        } catch let refused {
            error = refused
        }
        let refusal = error?.code
        let tlvs = file.image.tlvs
        let digest = tlvs.first { MCUbootTLV.digestTypes.contains($0.type) }
        let isUnreadable = refusal == .ambiguousImage || refusal == .encryptedImage
        return MCUbootReport(
            digest: digest?.name, digestHolds: digest == nil || isUnreadable ? nil : refusal != .digestMismatch,
            signature: signature(of: file, error), isAmbiguous: refusal == .ambiguousImage,
            unsigned: tlvs.filter { !$0.isAboutSignedBytes })
    }

    private func signature(of file: MCUbootFile, _ error: VerificationError?) -> MCUbootReport.Signature? {
        let refusal = error?.code
        let tlvs = file.image.tlvs
        guard let signature = tlvs.first(where: { MCUbootTLV.signatureTypes.contains($0.type) }) else { return nil }
        let key = tlvs.first { [MCUbootTLV.keyHash, MCUbootTLV.publicKey].contains($0.type) }
        return MCUbootReport.Signature(
            algorithm: signature.name ?? "unknown", isPure: tlvs.contains { $0.type == MCUbootTLV.pureSignature },
            keyHash: key.flatMap { $0.type == MCUbootTLV.keyHash ? $0.value : nil },
            keyID: refusal == .keyOutOfScope ? nil : trustedKey(named: key)?.id,
            ignoredKeyID: refusal == .keyOutOfScope ? trustedKey(named: key)?.id : nil,
            holds: refusal == nil ? true : refusal == .badSignature ? false : nil,
            unsupported: refusal == .unsupportedSignature ? error?.context : nil)
    }
}

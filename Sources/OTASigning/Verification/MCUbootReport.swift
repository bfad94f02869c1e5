public import OTAFirmware

/// What was found of an MCUboot image, whether it is accepted or not.
public struct MCUbootReport: Sendable, Equatable {
    public struct Signature: Sendable, Equatable {
        /// What imgtool calls the algorithm, such as `ED25519` or `ECDSASIG`.
        public let algorithm: String
        /// It is over the signed bytes and not over their digest.
        public let isPure: Bool
        /// The digest of the public key (SubjectPublicKeyInfo) by which the image names its signer: SHA-256, or SHA-512
        /// in an image that has SHA-512 throughout. Nil where the image names nobody, or carries the whole key.
        public let keyHash: [UInt8]?
        /// The trusted key that is named; nil: there is none, or it may not sign MCUboot images.
        public let keyID: KeyID?
        /// The trusted key that is named, if its scope does not allow MCUboot images.
        public let ignoredKeyID: KeyID?
        /// The signature holds; nil where it could not be checked.
        public let holds: Bool?

        /// The trusted key that is named may not sign MCUboot images.
        public var isOutOfScope: Bool { ignoredKeyID != nil }
    }

    /// What imgtool calls the digest, such as `SHA256`; nil: it has none.
    public let digest: String?
    /// It is that of the signed bytes; nil where it could not be checked.
    public let digestHolds: Bool?
    /// Nil: it is not signed.
    public let signature: Signature?
    /// It says something twice, or where it does not belong.
    public let isAmbiguous: Bool
    /// TLVs for which nobody answers: outside the protected area, and about something else than the signed bytes.
    public let unsigned: [MCUbootTLV]
}

extension Verifier {
    /// What is to be said of an image, whatever the policy.
    public func report(on file: MCUbootFile) -> MCUbootReport {
        var refusal: VerificationError.Code?
        do throws(VerificationError) {
            _ = try Verifier(trust: trust, policy: .unrestricted).verify(file)
        } catch {
            refusal = error.code
        }
        let tlvs = file.image.tlvs
        let digest = tlvs.first { MCUbootTLV.digestTypes.contains($0.type) }
        let isUnreadable = refusal == .ambiguousImage || refusal == .encryptedImage
        return MCUbootReport(
            digest: digest?.name, digestHolds: digest == nil || isUnreadable ? nil : refusal != .digestMismatch,
            signature: signature(of: file, refusal), isAmbiguous: refusal == .ambiguousImage,
            unsigned: tlvs.filter { !$0.isAboutSignedBytes })
    }

    private func signature(of file: MCUbootFile, _ refusal: VerificationError.Code?) -> MCUbootReport.Signature? {
        let tlvs = file.image.tlvs
        guard let signature = tlvs.first(where: { MCUbootTLV.signatureTypes.contains($0.type) }) else { return nil }
        let key = tlvs.first { [MCUbootTLV.keyHash, MCUbootTLV.publicKey].contains($0.type) }
        return MCUbootReport.Signature(
            algorithm: signature.name ?? "unknown", isPure: tlvs.contains { $0.type == MCUbootTLV.pureSignature },
            keyHash: key.flatMap { $0.type == MCUbootTLV.keyHash ? $0.value : nil },
            keyID: refusal == .keyOutOfScope ? nil : trustedKey(named: key)?.id,
            ignoredKeyID: refusal == .keyOutOfScope ? trustedKey(named: key)?.id : nil,
            holds: refusal == nil ? true : refusal == .badSignature ? false : nil)
    }
}

public import OTAFirmware

/// The results of all checks of an MCUboot image. `Verifier.report(on:)` returns a report even if the verification fails.
public struct MCUbootReport: Sendable, Equatable {
    public struct Signature: Sendable, Equatable {
        /// The algorithm's name in imgtool, such as `ED25519` or `ECDSASIG`. It is `unknown` if imgtool does not have a name for the
        /// algorithm.
        public let algorithm: String
        /// Whether the signature covers the image's bytes (a pure signature). If false, the signature covers a digest of the bytes.
        public let isPure: Bool
        /// The value of the image's KEYHASH TLV: a digest of the signer's public key (`ImagePublicKey.encoded`).
        ///
        /// The value is nil if the image has no KEYHASH TLV. The image may then contain the whole key in a PUBKEY TLV.
        public let keyHash: [UInt8]?
        /// The ID of the trusted key that the image names. The value is nil if the image names no trusted key, or if `ignoredKeyID` is not
        /// nil.
        public let keyID: KeyID?
        /// The ID of the trusted key that the image names, if the signature is valid but the key's scope excludes MCUboot images. The value
        /// is nil in all other cases.
        public let ignoredKeyID: KeyID?
        /// Whether the signature by the key `keyID` is valid. The value is nil if `keyID` is nil, or if an earlier check failed.
        public let holds: Bool?
        /// The reason for the error `unsupported-signature`, as a text for the user. The value is nil if the verification did not end with
        /// this error.
        public let unsupported: String?

        /// True if the image has a valid signature by a trusted key, and the scope of this key excludes MCUboot images.
        public var isOutOfScope: Bool { ignoredKeyID != nil }
    }

    /// The imgtool name of the digest's TLV, such as `SHA256`. The value is nil if the image contains no digest.
    public let digest: String?
    /// Whether the digest matches the signed bytes. The value is nil if the image has no digest, is encrypted or is ambiguous.
    public let digestHolds: Bool?
    /// The signature. The value is nil if the image is not signed.
    public let signature: Signature?
    /// Whether the verification failed with `ambiguous-image`, for example because the image contains a TLV twice.
    public let isAmbiguous: Bool
    /// The TLVs outside the protected area, without the TLVs for the digest, the signature and the key. The signature does not cover the
    /// TLVs in this list, so anyone can change them.
    public let unsigned: [MCUbootTLV]
}

extension Verifier {
    /// Checks an image and returns the results. The conditions of `policy` are not checked.
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

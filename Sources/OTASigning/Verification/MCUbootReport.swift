public import OTAFirmware

/// The results of the checks of an MCUboot image. `Verifier.report(on:)` returns them for accepted and for refused images.
public struct MCUbootReport: Sendable, Equatable {
    public struct Signature: Sendable, Equatable {
        /// The algorithm's name in imgtool, such as `ED25519` or `ECDSASIG`.
        public let algorithm: String
        /// Whether the signature is over the image's bytes (a pure signature). Otherwise it is over their digest.
        public let isPure: Bool
        /// The value of the image's KEYHASH TLV: the SHA-256 or SHA-512 of the signer's public key (`ImagePublicKey.encoded`). Nil if the
        /// image has no KEYHASH TLV. It may then contain the whole key in a PUBKEY TLV.
        public let keyHash: [UInt8]?
        /// The trusted key that the image names. Nil if no trusted key matches, or if `ignoredKeyID` is not nil.
        public let keyID: KeyID?
        /// The trusted key that the image names, if its signature is valid but its scope excludes MCUboot images. Otherwise nil.
        public let ignoredKeyID: KeyID?
        /// Whether the signature is valid. Nil if it was not checked against a trusted key, or if `ignoredKeyID` is not nil.
        public let holds: Bool?
        /// A text for the user that explains why the algorithm is not supported. Nil if the algorithm is supported.
        public let unsupported: String?

        /// Whether the signature by a trusted key is valid, but the scope of this key excludes MCUboot images.
        public var isOutOfScope: Bool { ignoredKeyID != nil }
    }

    /// The name of the digest's TLV in imgtool, such as `SHA256`. Nil if the image contains no digest.
    public let digest: String?
    /// Whether the digest matches the signed bytes. Nil if the image has no digest, is encrypted or is ambiguous.
    public let digestHolds: Bool?
    /// The signature; nil if the image is not signed.
    public let signature: Signature?
    /// Whether the verification failed with `ambiguous-image`, for example because the image contains a TLV twice.
    public let isAmbiguous: Bool
    /// The TLVs outside the protected area. The signature does not cover them. The list does not contain the TLVs of the signature, of its
    /// key and of the digest.
    public let unsigned: [MCUbootTLV]
}

extension Verifier {
    /// Checks an image and returns the results. The policy is not applied.
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

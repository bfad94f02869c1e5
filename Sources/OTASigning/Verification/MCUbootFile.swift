public import OTAFirmware

/// A parsed MCUboot image from a file. It is complete, and its SHA-256 matches if it contains one. Its signature is not checked.
public struct MCUbootFile: Sendable {
    /// The bytes to send, from the header to the last TLV. They do not include the slot's padding and trailer, which are not signed and
    /// may mark the image as confirmed.
    public let bytes: [UInt8]
    public let image: MCUbootImage
    /// All bytes of the file.
    public let file: [UInt8]

    /// Parses the contents of a file.
    public init(parsing file: [UInt8]) throws(ImageError) {
        let description = try FirmwareInspector.inspect(file, format: .mcuboot) { SHA256() }
        guard case .mcuboot(let image) = description.details else {
            preconditionFailure("the inspector found a format other than the given one")
        }
        bytes = file.count == image.length ? file : Array(file.prefix(Int(image.length)))
        self.image = image
        self.file = file
    }

    /// The bytes that the digest and the signature cover: header, body and protected TLVs.
    var signedBytes: ArraySlice<UInt8> { bytes.prefix(Int(image.signedLength)) }
}

/// The only Ed25519 signature of an MCUboot image, parsed from its TLVs. It is not verified yet.
///
/// Bootloaders may treat a second TLV of the same kind differently. So an image with such a duplicate is an error: the bootloader
/// must verify the same TLVs as the host.
struct MCUbootSignature {
    /// The claimed signer: a digest of the SubjectPublicKeyInfo, or the whole SubjectPublicKeyInfo. Nil if the image names no signer.
    let keyTLV: MCUbootTLV?
    /// The signature. A valid one has 64 bytes; the length is not checked yet.
    let bytes: [UInt8]
    /// Whether the signature is over the bytes themselves instead of their digest.
    let isPure: Bool

    /// Finds the signature of `image`.
    ///
    /// - Throws: `ambiguous-image`, `unsupported-signature`, `not-signed`.
    init(of image: MCUbootImage) throws(VerificationError) {
        try Self.checkPlaces(in: image)
        guard let signature = try Self.only(image, MCUbootTLV.signatureTypes, "signature") else {
            throw VerificationError(.notSigned, "the image has no signature")
        }
        keyTLV = try Self.only(image, [MCUbootTLV.keyHash, MCUbootTLV.publicKey], "key")
        let pure = try Self.only(image, [MCUbootTLV.pureSignature], "SIG_PURE")
        guard signature.type == MCUbootTLV.ed25519 else {
            throw VerificationError(
                .unsupportedSignature,
                "the image is signed with \(signature.name ?? "another algorithm"); expected Ed25519")
        }
        guard pure == nil || pure?.value == [1] else {
            throw VerificationError(
                .ambiguousImage, "the record SIG_PURE of the image is \(Hex.encode(pure?.value ?? [])); expected 01")
        }
        bytes = signature.value
        isPure = pure != nil
    }

    /// Returns the only TLV of these types; nil if the image has no such TLV.
    ///
    /// - Parameter what: the kind of record, for the error message.
    /// - Throws: `ambiguous-image` if there is more than one.
    static func only(
        _ image: MCUbootImage, _ types: [UInt16], _ what: String
    ) throws(VerificationError) -> MCUbootTLV? {
        let found = image.tlvs.filter { types.contains($0.type) }
        guard found.count <= 1 else {
            throw VerificationError(
                .ambiguousImage, "the image has \(found.count) \(what) records; expected at most one")
        }
        return found.first
    }

    /// Checks that no digest, key or signature record is in the protected area, which these records cover.
    private static func checkPlaces(in image: MCUbootImage) throws(VerificationError) {
        let misplaced = image.protectedTLVs.first { $0.isAboutSignedBytes }
        if let misplaced {
            throw VerificationError(
                .ambiguousImage, "the record \(misplaced.name ?? "signature") of the image is in the protected area")
        }
    }
}

/// The results of the checks of an MCUboot image, whether it is accepted or not.
public struct MCUbootReport: Sendable, Equatable {
    public struct Signature: Sendable, Equatable {
        /// imgtool's name of the algorithm, such as `ED25519` or `ECDSASIG`.
        public let algorithm: String
        /// Whether the signature is over the bytes themselves instead of their digest.
        public let isPure: Bool
        /// The digest of the signer's public key (SubjectPublicKeyInfo) in the image: SHA-256, or SHA-512 in an image that uses SHA-512
        /// throughout. Nil if the image does not name its signer, or contains the whole key.
        public let keyHash: [UInt8]?
        /// The trusted key that the image names. Nil if no trusted key matches, or if its scope excludes MCUboot images.
        public let keyID: KeyID?
        /// The trusted key that the image names, if its scope excludes MCUboot images.
        public let ignoredKeyID: KeyID?
        /// Whether the signature is valid; nil if it could not be checked.
        public let holds: Bool?

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

internal import OTAFirmware

/// The only signature of an MCUboot image, parsed from its TLVs. It is not verified yet.
///
/// Bootloaders may treat a second TLV of the same kind differently. So an image with such a duplicate is an error: the bootloader
/// must verify the same TLVs as the host.
struct MCUbootSignature {
    /// The algorithm that the signature's TLV and the image's digest select.
    let algorithm: ImagePublicKey.Algorithm
    /// The claimed signer: a digest of `ImagePublicKey.encoded`, or these bytes themselves. Nil if the image names no signer.
    let keyTLV: MCUbootTLV?
    /// The signature. Its length is not checked yet.
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
        let digest = try Self.only(image, MCUbootTLV.digestTypes, "digest")
        algorithm = try Self.algorithm(of: signature, digest: digest, isPure: pure != nil)
        guard pure == nil || pure?.value == [1] else {
            throw VerificationError(
                .ambiguousImage, "the record SIG_PURE of the image is \(Hex.encode(pure?.value ?? [])); expected 01")
        }
        bytes = signature.value
        isPure = pure != nil
    }

    /// Returns the algorithm of a signature.
    ///
    /// - Throws: `unsupported-signature` for an algorithm or a combination that otaflash does not support.
    private static func algorithm(
        of signature: MCUbootTLV, digest: MCUbootTLV?, isPure: Bool
    ) throws(VerificationError) -> ImagePublicKey.Algorithm {
        func unsupported(_ found: String, _ expected: String) -> VerificationError {
            VerificationError(.unsupportedSignature, "the image is signed with \(found); expected \(expected)")
        }
        guard let algorithm = ImagePublicKey.Algorithm.allCases.first(where: { $0.signatureType == signature.type })
        else {
            throw unsupported("ECDSA P-224", ImagePublicKey.Algorithm.list)
        }
        // imgtool uses the same TLV for both curves. The digest selects the curve.
        if algorithm == .ecdsaP256, digest?.type == MCUbootTLV.sha384 {
            throw unsupported("ECDSA P-384", ImagePublicKey.Algorithm.list)
        }
        if isPure, algorithm != .ed25519 {
            throw unsupported("a pure \(algorithm.name) signature", "a signature over the image's SHA-256")
        }
        if let digest, !algorithm.digestTypes.contains(digest.type) {
            let expected = algorithm == .ed25519 ? "SHA256 or SHA512" : "SHA256"
            throw unsupported("\(algorithm.name) over \(digest.name ?? "another digest")", expected)
        }
        return algorithm
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

internal import OTAFirmware

/// The signature of an MCUboot image, parsed from the image's TLVs. The signature is not verified yet.
///
/// An image with two signatures, two keys or two digests is an error. The bootloader could use one of the two, and otaflash could use the
/// other one.
struct MCUbootSignature {
    /// The signature algorithm.
    let algorithm: ImagePublicKey.Algorithm
    /// The TLV that names the signer. A KEYHASH TLV contains a digest of the public key. A PUBKEY TLV contains the public key
    /// (`ImagePublicKey.encoded`). `keyTLV` is nil if the image names no signer.
    let keyTLV: MCUbootTLV?
    /// The bytes of the signature.
    let bytes: [UInt8]
    /// Whether the signature covers the image's bytes (a pure signature). If false, the signature covers a digest of the bytes.
    let isPure: Bool

    /// Finds the signature among the TLVs of `image`.
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
    /// - Parameters:
    ///   - signature: the TLV with the signature.
    ///   - digest: the TLV with the image's digest; nil if the image has no digest.
    ///   - isPure: whether the signature covers the image's bytes instead of a digest.
    /// - Throws: `unsupported-signature` if otaflash does not support the algorithm, the combination of the algorithm and the digest, or a
    ///   pure signature with this algorithm.
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
        // imgtool uses the same type of signature TLV for the curves P-256 and P-384. A SHA-384 digest means that the curve is P-384.
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

    /// Returns the TLV of `image` whose type is one of `types`. Returns nil if the image has no TLV of these types.
    ///
    /// - Parameter what: the kind of TLV, for the error message.
    /// - Throws: `ambiguous-image` if the image has several TLVs of these types.
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

    /// Checks that the protected area contains no digest, key or signature TLV. A correct image contains these TLVs only after the
    /// protected area. If the protected area contained a second copy, the bootloader and otaflash could use different copies.
    ///
    /// - Throws: `ambiguous-image`.
    private static func checkPlaces(in image: MCUbootImage) throws(VerificationError) {
        let misplaced = image.protectedTLVs.first { $0.isAboutSignedBytes }
        if let misplaced {
            throw VerificationError(
                .ambiguousImage, "the record \(misplaced.name ?? "signature") of the image is in the protected area")
        }
    }
}

internal import OTAFirmware

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
        guard let signature = try Self.only(image, MCUbootTLV.signatureTypes, "a signature") else {
            throw VerificationError(.notSigned, "it carries no signature")
        }
        keyTLV = try Self.only(image, [MCUbootTLV.keyHash, MCUbootTLV.publicKey], "a key")
        let pure = try Self.only(image, [MCUbootTLV.pureSignature], "the mark of a signature over the image itself")
        guard signature.type == MCUbootTLV.ed25519 else {
            throw VerificationError(
                .unsupportedSignature,
                "it is signed with \(signature.name ?? "another algorithm"), and only Ed25519 can be checked here")
        }
        guard pure == nil || pure?.value == [1] else {
            throw VerificationError(
                .ambiguousImage, "its SIG_PURE is \(Hex.encode(pure?.value ?? [])), and can only be 01")
        }
        bytes = signature.value
        isPure = pure != nil
    }

    /// Returns the only TLV of these types; nil if there is none.
    ///
    /// - Parameter what: the kind of record, for the error message.
    /// - Throws: `ambiguous-image` if there is more than one.
    static func only(
        _ image: MCUbootImage, _ types: [UInt16], _ what: String
    ) throws(VerificationError) -> MCUbootTLV? {
        let found = image.tlvs.filter { types.contains($0.type) }
        guard found.count <= 1 else {
            throw VerificationError(.ambiguousImage, "it tells \(what) \(found.count) times")
        }
        return found.first
    }

    /// Checks that no digest, key or signature record is in the protected area, which these records cover.
    private static func checkPlaces(in image: MCUbootImage) throws(VerificationError) {
        let misplaced = image.protectedTLVs.first { $0.isAboutSignedBytes }
        if let misplaced {
            throw VerificationError(
                .ambiguousImage, "its \(misplaced.name ?? "signature") is among the protected records")
        }
    }
}

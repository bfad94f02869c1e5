internal import OTAFirmware

/// The one Ed25519 signature of an MCUboot image, as its TLVs tell it. Nothing of it is checked yet.
///
/// A bootloader goes through the TLVs in their order, and what it makes of a second one is its own business. So an image
/// that has anything twice is refused: what was checked here is then what is checked there.
struct MCUbootSignature {
    /// Whose it is said to be: a digest of the SubjectPublicKeyInfo, or all of that.
    let keyTLV: MCUbootTLV?
    /// 64 bytes, unless it is none.
    let bytes: [UInt8]
    /// What was signed are the bytes and not their digest.
    let isPure: Bool

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

    /// The TLV of one of these types.
    static func only(
        _ image: MCUbootImage, _ types: [UInt16], _ what: String
    ) throws(VerificationError) -> MCUbootTLV? {
        let found = image.tlvs.filter { types.contains($0.type) }
        guard found.count <= 1 else {
            throw VerificationError(.ambiguousImage, "it tells \(what) \(found.count) times")
        }
        return found.first
    }

    /// What is about the signed bytes cannot be among them.
    private static func checkPlaces(in image: MCUbootImage) throws(VerificationError) {
        let misplaced = image.protectedTLVs.first { $0.isAboutSignedBytes }
        if let misplaced {
            throw VerificationError(
                .ambiguousImage, "its \(misplaced.name ?? "signature") is among the protected records")
        }
    }
}

/// A type, a length and a value behind an image's body.
public struct MCUbootTLV: Sendable, Hashable {
    public static let keyHash: UInt16 = 0x01
    /// A whole SubjectPublicKeyInfo in place of its hash.
    public static let publicKey: UInt16 = 0x02
    public static let sha256: UInt16 = 0x10
    public static let sha384: UInt16 = 0x11
    public static let sha512: UInt16 = 0x12
    /// All kinds of digest of the signed bytes.
    public static let digestTypes = [sha256, sha384, sha512]
    /// A signature of the digest, or, beside `pureSignature`, of all that the digest covers.
    public static let ed25519: UInt16 = 0x24
    public static let pureSignature: UInt16 = 0x25
    /// All kinds of signature: RSA and ECDSA beside Ed25519.
    public static let signatureTypes = [ed25519] + otherSignatureTypes
    public static let dependency: UInt16 = 0x40
    public static let securityCounter: UInt16 = 0x50

    private static let otherSignatureTypes: [UInt16] = [0x20, 0x21, 0x22, 0x23]

    public let type: UInt16
    public let value: [UInt8]

    public init(type: UInt16, value: [UInt8]) {
        self.type = type
        self.value = value
    }

    /// What imgtool calls the type; nil for one it does not know.
    public var name: String? { Self.names[type] }

    /// A digest that is not checked here.
    var isOtherDigest: Bool { type == Self.sha384 || type == Self.sha512 }

    /// A signature of an algorithm that nothing here checks.
    var isOtherSignature: Bool { Self.otherSignatureTypes.contains(type) }

    /// It is a digest or signature of what is signed, or part of it, and so no part of what is signed.
    public var isAboutSignedBytes: Bool {
        (Self.digestTypes + Self.signatureTypes + [Self.keyHash, Self.publicKey, Self.pureSignature]).contains(type)
    }

    /// imgtool 2.5.0, `TLV_VALUES`.
    private static let names: [UInt16: String] = [
        0x01: "KEYHASH", 0x02: "PUBKEY", 0x10: "SHA256", 0x11: "SHA384", 0x12: "SHA512", 0x20: "RSA2048",
        0x22: "ECDSASIG", 0x23: "RSA3072", 0x24: "ED25519", 0x25: "SIG_PURE", 0x30: "ENCRSA2048", 0x31: "ENCKW",
        0x32: "ENCEC256", 0x33: "ENCX25519", 0x34: "ENCX25519_SHA512", 0x40: "DEPENDENCY", 0x50: "SEC_CNT",
        0x60: "BOOT_RECORD", 0x70: "DECOMP_SIZE", 0x71: "DECOMP_SHA", 0x72: "DECOMP_SIGNATURE",
        0x73: "COMP_DEC_SIZE", 0x74: "UUID_VID", 0x75: "UUID_CID",
    ]
}

/// A type, a length and a value behind an image's body.
public struct MCUbootTLV: Sendable, Hashable {
    public static let keyHash: UInt16 = 0x01
    public static let sha256: UInt16 = 0x10
    /// A signature of the digest, or, beside `pureSignature`, of all that the digest covers.
    public static let ed25519: UInt16 = 0x24
    public static let pureSignature: UInt16 = 0x25
    public static let securityCounter: UInt16 = 0x50

    public let type: UInt16
    public let value: [UInt8]

    /// What imgtool calls the type; nil for one it does not know.
    public var name: String? { Self.names[type] }

    /// A digest that is not checked here.
    var isOtherDigest: Bool { type == 0x11 || type == 0x12 }

    /// A signature of an algorithm that nothing here checks.
    var isOtherSignature: Bool { [0x20, 0x21, 0x22, 0x23].contains(type) }

    /// imgtool 2.5.0, `TLV_VALUES`.
    private static let names: [UInt16: String] = [
        0x01: "KEYHASH", 0x02: "PUBKEY", 0x10: "SHA256", 0x11: "SHA384", 0x12: "SHA512", 0x20: "RSA2048",
        0x22: "ECDSASIG", 0x23: "RSA3072", 0x24: "ED25519", 0x25: "SIG_PURE", 0x30: "ENCRSA2048", 0x31: "ENCKW",
        0x32: "ENCEC256", 0x33: "ENCX25519", 0x34: "ENCX25519_SHA512", 0x40: "DEPENDENCY", 0x50: "SEC_CNT",
        0x60: "BOOT_RECORD", 0x70: "DECOMP_SIZE", 0x71: "DECOMP_SHA", 0x72: "DECOMP_SIGNATURE",
        0x73: "COMP_DEC_SIZE", 0x74: "UUID_VID", 0x75: "UUID_CID",
    ]
}

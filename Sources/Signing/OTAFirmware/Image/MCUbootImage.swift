/// A parsed MCUboot image in the format of imgtool, MCUboot's signing tool.
///
/// The parser has checked the lengths of all parts. If the image has a SHA-256 and is not encrypted, the parser has also checked the
/// SHA-256. The parser does not verify signatures. The format is described in the source of MCUboot,
/// `boot/bootutil/include/bootutil/image.h`.
public struct MCUbootImage: Sendable, Hashable {
    /// The first four bytes: 0x96f3b83d in little-endian byte order.
    package static let magic: [UInt8] = [0x3D, 0xB8, 0xF3, 0x96]

    public let version: Version
    public let loadAddress: UInt32
    /// The length of the header in bytes, including the padding between the header and the body.
    public let headerSize: UInt16
    /// The length of the body in bytes.
    public let bodySize: UInt32
    public let flags: UInt32
    /// The TLVs (records with type, length and value) that the digest and the signature cover.
    public let protectedTLVs: [MCUbootTLV]
    /// The TLVs that the digest and the signature do not cover.
    public let tlvs: [MCUbootTLV]
    /// The SHA-256 of header, body and protected TLVs. The parser has verified this digest. Nil if the image has no SHA-256 or is
    /// encrypted.
    public let digest: SHA256Digest?
    /// The length of header, body and protected TLVs in bytes. The digest and the signature cover these bytes.
    public let signedLength: UInt64
    /// The length of the image in bytes, including the last TLV. The slot's padding and trailer may follow in the file.
    public let length: UInt64

    /// Whether the body is encrypted. Only the device can check the digest of an encrypted image.
    public var isEncrypted: Bool { flags & MCUbootHeader.encryptionFlags != 0 }

    /// Whether the bootloader can start the image, according to the flags. For example, it cannot start an image for a second processor.
    public var isBootable: Bool { flags & MCUbootHeader.notBootableFlag == 0 }

    /// The security counter of the image. A bootloader with rollback protection refuses an image whose counter is lower than the counter of
    /// the installed image. Nil if the image has no security counter, or if the counter does not have 4 bytes.
    public var securityCounter: UInt32? {
        guard let value = protectedTLVs.first(where: { $0.type == MCUbootTLV.securityCounter })?.value,
            value.count == 4
        else { return nil }
        var reader = ByteReader(value)
        return try? reader.read(UInt32.self)
    }
}

extension MCUbootImage {
    /// The version in an image's header.
    public struct Version: Sendable, Hashable, CustomStringConvertible {
        /// A description of the text format, for messages to the user.
        public static let rule =
            "MAJOR.MINOR.REVISION+BUILD such as 1.4.0 or 1.4.0+7, in decimal: up to 255, 255, 65535 and 4294967295; "
            + "parts may be omitted from the end"

        public let major, minor: UInt8
        public let revision: UInt16
        public let build: UInt32

        init(major: UInt8, minor: UInt8, revision: UInt16, build: UInt32) {
            self.major = major
            self.minor = minor
            self.revision = revision
            self.build = build
        }

        /// Parses text in the format of imgtool's option `--version` (imgtool 2.5.0, `version.py`). Returns nil for invalid text.
        public init?(_ text: some StringProtocol) {
            let halves = text.split(separator: "+", omittingEmptySubsequences: false)
            let parts = halves[0].split(separator: ".", omittingEmptySubsequences: false)
            guard halves.count <= 2, parts.count <= 3, halves.count == 1 || parts.count == 3,
                let major = Self.number(parts[0], UInt8.self),
                let minor = Self.number(parts.count > 1 ? parts[1] : "0", UInt8.self),
                let revision = Self.number(parts.count > 2 ? parts[2] : "0", UInt16.self),
                let build = Self.number(halves.count > 1 ? halves[1] : "0", UInt32.self)
            else { return nil }
            self.init(major: major, minor: minor, revision: revision, build: build)
        }

        /// The version as a semantic version: `1.2.3`, or `1.2.3+4` if the build number is not 0.
        public var description: String { "\(major).\(minor).\(revision)" + (build == 0 ? "" : "+\(build)") }

        /// Parses a decimal number. Returns nil if the text has a sign or leading zeros, or if the value is out of range.
        private static func number<Integer: FixedWidthInteger>(
            _ text: some StringProtocol, _ type: Integer.Type
        ) -> Integer? {
            guard let number = Integer(text), String(number) == text else { return nil }
            return number
        }
    }
}

extension MCUbootImage.Version {
    /// The encoded version: 8 bytes, little-endian.
    var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.write(major)
        writer.write(minor)
        writer.write(revision)
        writer.write(build)
        return writer.bytes
    }
}

/// A record with a type, a length and a value. In an image, the TLVs follow the body.
public struct MCUbootTLV: Sendable, Hashable {
    public static let keyHash: UInt16 = 0x01
    /// The complete public key in DER. An image that names its key has either this TLV or `keyHash`.
    public static let publicKey: UInt16 = 0x02
    public static let sha256: UInt16 = 0x10
    public static let sha384: UInt16 = 0x11
    public static let sha512: UInt16 = 0x12
    /// The types of TLVs that contain a digest of the signed bytes.
    public static let digestTypes = [sha256, sha384, sha512]
    /// An RSASSA-PSS signature with an RSA-2048 key.
    public static let rsa2048: UInt16 = 0x20
    /// An ECDSA signature on the curve P-224. MCUboot does not support this curve any more.
    public static let ecdsaP224: UInt16 = 0x21
    /// An ECDSA signature in DER. The curve is P-256 in an image with a SHA-256, and P-384 in an image with a SHA-384.
    public static let ecdsa: UInt16 = 0x22
    /// An RSASSA-PSS signature with an RSA-3072 key.
    public static let rsa3072: UInt16 = 0x23
    /// An Ed25519 signature. In an image with `pureSignature`, the signed message is the header, the body and the protected TLVs. In other
    /// images, the message is the digest of these bytes.
    public static let ed25519: UInt16 = 0x24
    public static let pureSignature: UInt16 = 0x25
    /// The types of TLVs that contain a signature: Ed25519, RSA and ECDSA.
    public static let signatureTypes = [ed25519, rsa2048, ecdsaP224, ecdsa, rsa3072]
    public static let dependency: UInt16 = 0x40
    public static let securityCounter: UInt16 = 0x50
    /// The digest of the image after its decompression. A compressed image has it as a protected TLV.
    public static let unpackedDigest: UInt16 = 0x71

    public let type: UInt16
    public let value: [UInt8]

    public init(type: UInt16, value: [UInt8]) {
        self.type = type
        self.value = value
    }

    /// The type's name in imgtool; nil for an unknown type.
    public var name: String? { Self.names[type] }

    /// Whether the TLV is a SHA-384 or SHA-512 digest. This module checks only SHA-256 digests.
    var isOtherDigest: Bool { type == Self.sha384 || type == Self.sha512 }

    /// Whether the TLV is an RSA or ECDSA signature.
    var isOtherSignature: Bool { Self.signatureTypes.contains(type) && type != Self.ed25519 }

    /// True for a TLV with a digest of the signed bytes, and for the TLVs of a signature over these bytes: signature, key and
    /// `pureSignature`. A correct image has such TLVs only outside the protected area, because a signing tool adds them after it has
    /// computed the digest.
    public var isAboutSignedBytes: Bool {
        (Self.digestTypes + Self.signatureTypes + [Self.keyHash, Self.publicKey, Self.pureSignature]).contains(type)
    }

    /// The names of the types. The source is `TLV_VALUES` in imgtool 2.5.0.
    private static let names: [UInt16: String] = [
        0x01: "KEYHASH", 0x02: "PUBKEY", 0x10: "SHA256", 0x11: "SHA384", 0x12: "SHA512", 0x20: "RSA2048",
        0x22: "ECDSASIG", 0x23: "RSA3072", 0x24: "ED25519", 0x25: "SIG_PURE", 0x30: "ENCRSA2048", 0x31: "ENCKW",
        0x32: "ENCEC256", 0x33: "ENCX25519", 0x34: "ENCX25519_SHA512", 0x40: "DEPENDENCY", 0x50: "SEC_CNT",
        0x60: "BOOT_RECORD", 0x70: "DECOMP_SIZE", 0x71: "DECOMP_SHA", 0x72: "DECOMP_SIGNATURE",
        0x73: "COMP_DEC_SIZE", 0x74: "UUID_VID", 0x75: "UUID_CID",
    ]
}

/// The first 32 bytes of an MCUboot image.
struct MCUbootHeader {
    static let length: UInt64 = 32
    /// The flags for encryption with AES-128 and AES-256.
    static let encryptionFlags: UInt32 = 0x4 | 0x8
    static let notBootableFlag: UInt32 = 0x10

    let loadAddress: UInt32
    let headerSize: UInt16
    let protectedTLVSize: UInt16
    let bodySize: UInt32
    let flags: UInt32
    let version: MCUbootImage.Version

    init(_ bytes: [UInt8]) throws(ImageError) {
        var reader = ByteReader(bytes)
        do {
            _ = try reader.read(4)
            loadAddress = try reader.read()
            headerSize = try reader.read()
            protectedTLVSize = try reader.read()
            bodySize = try reader.read()
            flags = try reader.read()
            version = MCUbootImage.Version(
                major: try reader.read(), minor: try reader.read(), revision: try reader.read(),
                build: try reader.read())
        } catch {
            throw ImageError(error)
        }
        guard headerSize >= Self.length else {
            throw ImageError(
                .badImageHeader, offset: 8, expected: "a header of at least 32 bytes", found: "\(headerSize)")
        }
    }

    /// Returns a header of 32 bytes, without padding. The flags and the load address are 0.
    static func bytes(_ layout: MCUbootLayout, protectedTLVSize: UInt16, bodySize: UInt32) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(MCUbootImage.magic)
        writer.write(UInt32(0))
        writer.write(layout.headerSize)
        writer.write(protectedTLVSize)
        writer.write(bodySize)
        writer.write(UInt32(0))
        writer.write(layout.version.bytes)
        writer.write(UInt32(0))
        return writer.bytes
    }
}

/// An image as imgtool signs it for MCUboot (mcuboot, `boot/bootutil/include/bootutil/image.h`). Its parts were
/// measured, and its SHA-256 checked where it has one; a signature is not looked at here.
public struct MCUbootImage: Sendable, Hashable {
    /// The first four bytes: 0x96f3b83d, little-endian.
    package static let magic: [UInt8] = [0x3D, 0xB8, 0xF3, 0x96]

    public let version: Version
    public let loadAddress: UInt32
    /// What lies in front of the body, in bytes, padding included.
    public let headerSize: UInt16
    /// In bytes.
    public let bodySize: UInt32
    public let flags: UInt32
    /// What the digest and the signature cover too.
    public let protectedTLVs: [MCUbootTLV]
    public let tlvs: [MCUbootTLV]
    /// The SHA-256 of header, body and protected TLVs, checked; nil where it could not be.
    public let digest: SHA256Digest?
    /// The length of header, body and protected TLVs, in bytes: what digest and signature cover.
    public let signedLength: UInt64
    /// Where the last TLV ends: what follows is the slot's padding and trailer.
    public let length: UInt64

    /// The body is encrypted, so that nothing but the device can check the digest.
    public var isEncrypted: Bool { flags & MCUbootHeader.encryptionFlags != 0 }

    /// It is not to be started by itself, such as another processor's.
    public var isBootable: Bool { flags & MCUbootHeader.notBootableFlag == 0 }

    /// What the bootloader's rollback protection compares, where the image has it.
    public var securityCounter: UInt32? {
        guard let value = protectedTLVs.first(where: { $0.type == MCUbootTLV.securityCounter })?.value,
            value.count == 4
        else { return nil }
        var reader = ByteReader(value)
        return try? reader.read(UInt32.self)
    }
}

extension MCUbootImage {
    public struct Version: Sendable, Hashable, CustomStringConvertible {
        /// What a text must be, for people.
        public static let rule =
            "MAJOR.MINOR.REVISION+BUILD such as 1.4.0 or 1.4.0+7, in decimal: up to 255, 255, 65535 and 4294967295; "
            + "parts may be left out from the end"

        public let major, minor: UInt8
        public let revision: UInt16
        public let build: UInt32

        init(major: UInt8, minor: UInt8, revision: UInt16, build: UInt32) {
            self.major = major
            self.minor = minor
            self.revision = revision
            self.build = build
        }

        /// What imgtool's `--version` takes (imgtool 2.5.0, `version.py`); nil for what it refuses.
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

        /// `1.2.3`, or `1.2.3+4` with a build number other than 0: a semantic version.
        public var description: String { "\(major).\(minor).\(revision)" + (build == 0 ? "" : "+\(build)") }

        /// Without sign and leading zeros.
        private static func number<Integer: FixedWidthInteger>(
            _ text: some StringProtocol, _ type: Integer.Type
        ) -> Integer? {
            guard let number = Integer(text), String(number) == text else { return nil }
            return number
        }
    }
}

extension MCUbootImage.Version {
    /// 8 bytes, little-endian.
    var bytes: [UInt8] {
        var writer = ByteWriter()
        writer.write(major)
        writer.write(minor)
        writer.write(revision)
        writer.write(build)
        return writer.bytes
    }
}

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

/// The 32 bytes in front of an MCUboot image.
struct MCUbootHeader {
    static let length: UInt64 = 32
    /// AES-128 and AES-256.
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

    /// The 32 bytes of a header without flags.
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

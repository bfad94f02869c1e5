internal import COpenSSL
public import OTAFirmware

/// An Ed25519 public key (RFC 8032: pure Ed25519, without a context).
public struct PublicKey: Sendable {
    /// The 32 raw bytes.
    public let bytes: [UInt8]
    /// The first 8 bytes of SHA-256 over `bytes`.
    public let id: KeyID

    /// - Throws: `not-a-key` unless there are 32 bytes; `small-order` for a point whose signatures anyone can forge.
    public init(bytes: [UInt8]) throws(KeyError) {
        guard bytes.count == 32 else {
            throw KeyError(.notAKey, "the public key has \(bytes.count) bytes; an Ed25519 public key has 32")
        }
        guard !SmallOrder.contains(bytes) else {
            throw KeyError(.smallOrder, "the public key is a point of small order; anyone can forge its signatures")
        }
        guard let id = KeyID(bytes: SHA256.digest(of: bytes).prefix) else {
            throw KeyError(.cryptography, "the SHA-256 digest is shorter than a key ID")
        }
        self.bytes = bytes
        self.id = id
    }

    /// Returns whether `signature` (64 bytes) over `message` is valid. libcrypto rejects S ≥ L.
    public func verify(signature: [UInt8], message: [UInt8]) -> Bool {
        do {
            try KeyHandle.ed25519(publicKey: bytes).verify(signature, over: message)
            return true
        } catch {
            return false
        }
    }
}

extension PublicKey: Hashable {
    public static func == (left: PublicKey, right: PublicKey) -> Bool { left.bytes == right.bytes }
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

extension PublicKey {
    /// The first bytes of an Ed25519 SubjectPublicKeyInfo (RFC 8410, section 4), before the 32 bytes of the key. DER allows no
    /// other encoding.
    private static let header: [UInt8] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]

    /// The SubjectPublicKeyInfo in DER, 44 bytes. MCUboot identifies a key by the SHA-256 of these bytes.
    public var subjectPublicKeyInfo: [UInt8] { Self.header + bytes }

    /// Reads a PEM text with a SubjectPublicKeyInfo. `openssl pkey -pubout` writes this format.
    ///
    /// - Throws: `not-a-key`, `wrong-algorithm`, `small-order`, `key-too-large`.
    public init(pem: SecretBytes) throws(KeyError) {
        try self.init(
            subjectPublicKeyInfo: PEMBlock(in: pem, labels: "PUBLIC KEY").contents.withUnsafeBytes { Array($0) })
    }

    /// - Throws: `not-a-key`, `wrong-algorithm`, `small-order`.
    init(subjectPublicKeyInfo info: [UInt8]) throws(KeyError) {
        guard Self.isEd25519(info) else { throw Self.refusal(of: info) }
        try self.init(bytes: Array(info.dropFirst(Self.header.count)))
    }

    /// Returns whether a SubjectPublicKeyInfo is for Ed25519. The length is not checked.
    static func isEd25519(_ info: [UInt8]) -> Bool { info.starts(with: header) }

    /// Returns the PEM text of this key, identical to the output of `openssl`.
    public func pem() throws(KeyError) -> SecretBytes {
        try KeyError.translating { () throws(OpenSSLFailure) in
            try PEMBlock.write(subjectPublicKeyInfo, label: "PUBLIC KEY")
        }
    }

    /// Returns the error for an `info` that is not an Ed25519 key. It names the algorithm if `info` has one.
    private static func refusal(of info: [UInt8]) -> KeyError {
        let name = AlgorithmName.of(subjectPublicKeyInfo: info)
        guard let name else { return KeyError(.notAKey, "malformed SubjectPublicKeyInfo") }
        return KeyError(.wrongAlgorithm, "the key is for \(name); expected Ed25519")
    }
}

/// The points of Curve25519 (Edwards form) whose order divides 8. Anyone can forge a signature for such a public key without a
/// private key: with S = 1 and R the base point, the signature is valid for one message in eight, or for every message.
private enum SmallOrder {
    /// All encodings of these points, including those with y ≥ p, without the sign bit of x (y, little-endian).
    /// Source: "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko 2020), table 1, and libsodium's blocklist.
    private static let encodings: Set<[UInt8]> = [
        [0] + zeros + [0],  // y = 0, order 4
        [1] + zeros + [0],  // y = 1, order 1
        [0xec] + ones + [0x7f],  // y = p - 1, order 2
        [0xed] + ones + [0x7f],  // y = p, that is 0
        [0xee] + ones + [0x7f],  // y = p + 1, that is 1
        [  // order 8
            0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
            0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
        ],
        [  // order 8
            0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
            0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
        ],
    ]
    private static let zeros = [UInt8](repeating: 0, count: 30)
    private static let ones = [UInt8](repeating: 0xff, count: 30)

    /// Returns whether these 32 bytes encode such a point, with either sign of x.
    static func contains(_ bytes: [UInt8]) -> Bool {
        guard let last = bytes.last else { return false }
        return encodings.contains(bytes.dropLast() + [last & 0x7f])
    }
}

/// The demo key in `keys/`. Its private key is public, so the library treats it separately from other trusted keys.
public enum DemoKey {
    /// The id of `keys/otaflash-demo.pub.pem`.
    public static let id: KeyID = {
        guard let id = KeyID(bytes: [0xc1, 0xf0, 0x72, 0x84, 0xd5, 0xcb, 0x35, 0xf0]) else {
            preconditionFailure("a key id has 8 bytes")
        }
        return id
    }()
}

/// The sample keys in the repository of MCUboot. Zephyr and the nRF Connect SDK use them by default. Their private keys are public, so
/// everybody can sign images with them.
public enum MCUbootSampleKey {
    /// Returns whether the key with this ID is a sample key.
    public static func contains(_ id: KeyID) -> Bool { ids.contains(id) }

    /// The ids of `root-ec-p256.pem`, `root-rsa-2048.pem`, `root-rsa-3072.pem`, `root-ed25519.pem` and `root-ed25519-2.pem` (mcuboot,
    /// top folder; `boot/zephyr/Kconfig`, `BOOT_SIGNATURE_KEY_FILE`).
    private static let ids: Set<KeyID> = Set(
        [
            [0xe3, 0x04, 0x66, 0xf6, 0xb8, 0x47, 0x0c, 0x1f], [0xfc, 0x57, 0x01, 0xdc, 0x61, 0x35, 0xe1, 0x32],
            [0x44, 0x97, 0x93, 0xfb, 0x65, 0xcd, 0x76, 0x98], [0x4a, 0x4a, 0x02, 0xb3, 0xbc, 0xb1, 0x74, 0x34],
            [0x21, 0x2a, 0x1d, 0x2e, 0x8c, 0xe6, 0x84, 0x26],
        ].compactMap { KeyID(bytes: $0) })
}

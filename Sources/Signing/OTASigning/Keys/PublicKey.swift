internal import COpenSSL
public import OTAFirmware

/// A public key that verifies signatures of bundles: an Ed25519 key (RFC 8032) or an ML-DSA key (FIPS 204). The variants Ed25519ctx,
/// Ed25519ph and HashML-DSA are not supported.
///
/// A value of an ML-DSA key does not need a libcrypto that supports ML-DSA. Only `verify(signature:message:in:)` does.
public struct PublicKey: Sendable {
    public let algorithm: SignatureAlgorithm
    /// The raw bytes of the key: 32 for Ed25519, 1312, 1952 or 2592 for ML-DSA.
    public let bytes: [UInt8]
    /// The ID of the key: the first 8 bytes of the SHA-256 of `bytes`.
    public let id: KeyID

    /// Creates a public key from its raw bytes.
    ///
    /// - Throws: `not-a-key` if `bytes` does not have the length of the algorithm's keys; `small-order` for an Ed25519 point of small
    ///   order, because anyone can forge signatures for this key.
    public init(algorithm: SignatureAlgorithm = .ed25519, bytes: [UInt8]) throws(KeyError) {
        guard bytes.count == algorithm.publicKeyLength else {
            let expected = algorithm == .ed25519 ? "an Ed25519 public key" : "a public key of \(algorithm)"
            throw KeyError(
                .notAKey, "the public key has \(bytes.count) bytes; \(expected) has \(algorithm.publicKeyLength)")
        }
        guard algorithm != .ed25519 || !SmallOrder.contains(bytes) else {
            throw KeyError(.smallOrder, "the public key is a point of small order; anyone can forge its signatures")
        }
        guard let id = KeyID(bytes: SHA256.digest(of: bytes).prefix) else {
            throw KeyError(.cryptography, "the SHA-256 digest is shorter than a key ID")
        }
        self.algorithm = algorithm
        self.bytes = bytes
        self.id = id
    }

    /// Returns whether `signature` is a valid signature of `message` by this key.
    ///
    /// The second half of an Ed25519 signature is the number S. libcrypto refuses a signature whose S is not below the group order L (RFC
    /// 8032, 8.4). Without this check, anyone could add L to S and get a second valid signature of the same message.
    ///
    /// - Throws: `unsupported-openssl`, `crypto-failed` if the signature could not be checked. Do not treat this as an invalid signature:
    ///   the signature can be valid.
    public func verify(
        signature: [UInt8], message: [UInt8], in domain: SignatureDomain = .none
    ) throws(KeyError) -> Bool {
        guard signature.count == algorithm.signatureLength else { return false }
        try algorithm.expectAvailable()
        return try KeyError.translating { () throws(OpenSSLFailure) in
            try KeyHandle.publicKey(algorithm, bytes)
                .verify(signature, over: message, algorithm, context: domain.context)
        }
    }
}

extension PublicKey: Hashable {
    public static func == (left: PublicKey, right: PublicKey) -> Bool {
        left.algorithm == right.algorithm && left.bytes == right.bytes
    }
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

extension PublicKey {
    /// The key as a SubjectPublicKeyInfo in DER. The KEYHASH TLV of an MCUboot image contains a digest of these bytes of an Ed25519 key.
    public var subjectPublicKeyInfo: [UInt8] { algorithm.publicKeyHeader + bytes }

    /// Reads a public key from a PEM text with the label `PUBLIC KEY`. `openssl pkey -pubout` writes this format.
    ///
    /// - Throws: `not-a-key`, `wrong-algorithm`, `small-order`, `key-too-large`, `crypto-failed`.
    public init(pem: SecretBytes) throws(KeyError) {
        try self.init(
            subjectPublicKeyInfo: PEMBlock(in: pem, labels: "PUBLIC KEY").contents.withUnsafeBytes { Array($0) })
    }

    /// Parses a public key in DER (SubjectPublicKeyInfo).
    ///
    /// - Throws: `not-a-key`, `wrong-algorithm`, `small-order`.
    init(subjectPublicKeyInfo info: [UInt8]) throws(KeyError) {
        guard let algorithm = Self.algorithm(ofSubjectPublicKeyInfo: info) else { throw Self.refusal(of: info) }
        try self.init(algorithm: algorithm, bytes: Array(info.dropFirst(algorithm.publicKeyHeader.count)))
    }

    /// Returns the algorithm of the key in a SubjectPublicKeyInfo; nil if this is not an Ed25519 or ML-DSA key. This method does not check
    /// the length of `info`.
    static func algorithm(ofSubjectPublicKeyInfo info: [UInt8]) -> SignatureAlgorithm? {
        SignatureAlgorithm.allCases.first { info.starts(with: $0.publicKeyHeader) }
    }

    /// Returns this key as a PEM text. The text is identical to the output of `openssl pkey -pubout`.
    public func pem() throws(KeyError) -> SecretBytes { try ImagePublicKey(self).pem() }

    /// Returns the error for a SubjectPublicKeyInfo without an Ed25519 or ML-DSA key: `wrong-algorithm`, or `not-a-key` if `info` is
    /// malformed.
    private static func refusal(of info: [UInt8]) -> KeyError {
        let name = AlgorithmName.of(subjectPublicKeyInfo: info)
        guard let name else { return KeyError(.notAKey, "malformed SubjectPublicKeyInfo") }
        return KeyError(.wrongAlgorithm, "the key is for \(name); expected \(SignatureAlgorithm.list)")
    }
}

/// The unsafe public keys: the points of the curve edwards25519 whose order divides 8.
///
/// For a public key of small order, anyone can forge a signature without a private key: the signature with S = 1 and the base point as R.
/// This signature is valid for at least one message in eight on average.
private enum SmallOrder {
    /// The encodings of the points of small order: the coordinate y in little-endian byte order, with the sign bit of x set to 0. The list
    /// includes non-canonical encodings. A non-canonical encoding contains y + p in place of y (p is the prime of the field).
    ///
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

    /// Returns whether `bytes` (32 bytes) is the encoding of a point of small order. This method ignores the sign bit of x.
    static func contains(_ bytes: [UInt8]) -> Bool {
        guard let last = bytes.last else { return false }
        return encodings.contains(bytes.dropLast() + [last & 0x7f])
    }
}

/// The demo key in the folder `keys/`. Its private key is public. A ``TrustPolicy`` therefore refuses files that only this key signed,
/// unless the policy's `allowsDemoKey` is true.
public enum DemoKey {
    /// The key ID of `keys/otaflash-demo.pub.pem`.
    public static let id: KeyID = {
        guard let id = KeyID(bytes: [0xc1, 0xf0, 0x72, 0x84, 0xd5, 0xcb, 0x35, 0xf0]) else {
            preconditionFailure("a key id has 8 bytes")
        }
        return id
    }()
}

/// The sample keys in the repository of MCUboot. Zephyr and the nRF Connect SDK use one of these keys by default. The private keys are
/// public, so anyone can sign images with them.
public enum MCUbootSampleKey {
    /// Returns whether the key with this ID is a sample key.
    public static func contains(_ id: KeyID) -> Bool { ids.contains(id) }

    /// The IDs of the key files `root-ec-p256.pem`, `root-rsa-2048.pem`, `root-rsa-3072.pem`, `root-ed25519.pem` and `root-ed25519-2.pem`,
    /// in this order. These files are in the top folder of the MCUboot repository. Source for the defaults of Zephyr:
    /// `BOOT_SIGNATURE_KEY_FILE` in `boot/zephyr/Kconfig`.
    private static let ids: Set<KeyID> = Set(
        [
            [0xe3, 0x04, 0x66, 0xf6, 0xb8, 0x47, 0x0c, 0x1f], [0xfc, 0x57, 0x01, 0xdc, 0x61, 0x35, 0xe1, 0x32],
            [0x44, 0x97, 0x93, 0xfb, 0x65, 0xcd, 0x76, 0x98], [0x4a, 0x4a, 0x02, 0xb3, 0xbc, 0xb1, 0x74, 0x34],
            [0x21, 0x2a, 0x1d, 0x2e, 0x8c, 0xe6, 0x84, 0x26],
        ].compactMap { KeyID(bytes: $0) })
}

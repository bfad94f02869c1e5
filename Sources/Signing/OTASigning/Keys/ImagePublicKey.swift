internal import COpenSSL
public import OTAFirmware

/// A public key of any supported algorithm. All keys except ML-DSA keys verify MCUboot images. For bundles, use `bundleKey`.
///
/// The algorithms for images are the signature algorithms of imgtool 2.5.0 (`image.py`, `ALLOWED_KEY_SHA`), except ECDSA P-384.
public struct ImagePublicKey: Sendable {
    public enum Algorithm: Sendable, CaseIterable {
        case ed25519, ecdsaP256, rsa2048, rsa3072
        // MCUboot has no signatures of these algorithms.
        case mlDSA44, mlDSA65, mlDSA87

        init(_ algorithm: SignatureAlgorithm) {
            switch algorithm {
            case .ed25519: self = .ed25519
            case .mlDSA44: self = .mlDSA44
            case .mlDSA65: self = .mlDSA65
            case .mlDSA87: self = .mlDSA87
            }
        }

        /// The name of the algorithm in messages.
        public var name: String {
            switch self {
            case .ed25519: "Ed25519"
            case .ecdsaP256: "ECDSA P-256"
            case .rsa2048: "RSA-2048"
            case .rsa3072: "RSA-3072"
            case .mlDSA44: "ML-DSA-44"
            case .mlDSA65: "ML-DSA-65"
            case .mlDSA87: "ML-DSA-87"
            }
        }

        /// The names of the algorithms of MCUboot images, as a text for messages.
        public static let list = "Ed25519, ECDSA P-256, RSA-2048 or RSA-3072"

        /// The type of the TLV (`MCUbootTLV`) that contains the signature (mcuboot, `image.h`; imgtool 2.5.0, `sig_tlv()` in `keys/`). Nil
        /// if MCUboot does not support the algorithm.
        var signatureType: UInt16? {
            switch self {
            case .ed25519: MCUbootTLV.ed25519
            case .ecdsaP256: MCUbootTLV.ecdsa
            case .rsa2048: MCUbootTLV.rsa2048
            case .rsa3072: MCUbootTLV.rsa3072
            case .mlDSA44, .mlDSA65, .mlDSA87: nil
            }
        }

        /// The types of TLVs that may contain the digest of an image, if a key of this algorithm signs the image (imgtool 2.5.0,
        /// `ALLOWED_KEY_SHA` in `image.py`).
        var digestTypes: [UInt16] {
            self == .ed25519 ? [MCUbootTLV.sha256, MCUbootTLV.sha512] : [MCUbootTLV.sha256]
        }
    }

    public let algorithm: Algorithm
    /// The ID of the key: the first 8 bytes of a SHA-256.
    ///
    /// For Ed25519 and ML-DSA, the SHA-256 covers the raw bytes of the key, as in bundles. For other algorithms, the SHA-256 covers
    /// `encoded`. The ID of an ECDSA or RSA key is therefore equal to the first 8 bytes of the KEYHASH TLV in images that the key signed.
    public let id: KeyID
    /// The key as a SubjectPublicKeyInfo in DER (RFC 5280, section 4.1).
    public let subjectPublicKeyInfo: [UInt8]
    /// The key in the encoding that MCUboot images use. In an image, a PUBKEY TLV contains these bytes, and a KEYHASH TLV contains a digest
    /// of them.
    ///
    /// For RSA, the encoding is the RSAPublicKey of PKCS#1 in DER. For other algorithms, the encoding is the SubjectPublicKeyInfo (imgtool
    /// 2.5.0, `get_public_bytes()` in `keys/`).
    public let encoded: [UInt8]
    /// This key as a ``PublicKey``, which verifies bundles. The value is nil for an ECDSA or RSA key, because bundles have only Ed25519 and
    /// ML-DSA signatures.
    public let bundleKey: PublicKey?

    public init(_ key: PublicKey) {
        algorithm = Algorithm(key.algorithm)
        id = key.id
        subjectPublicKeyInfo = key.subjectPublicKeyInfo
        encoded = subjectPublicKeyInfo
        bundleKey = key
    }

    /// Parses a public key in DER (SubjectPublicKeyInfo).
    ///
    /// - Throws: `not-a-key`; `wrong-algorithm` for an algorithm, a curve or an RSA key length that is not in `Algorithm`; `small-order`
    ///   for an unsafe Ed25519 key, because anyone can forge its signatures.
    public init(subjectPublicKeyInfo info: [UInt8]) throws(KeyError) {
        if PublicKey.algorithm(ofSubjectPublicKeyInfo: info) != nil {
            self.init(try PublicKey(subjectPublicKeyInfo: info))
            return
        }
        switch AlgorithmName.identifier(ofSubjectPublicKeyInfo: info) {
        case NID_X9_62_id_ecPublicKey?: try self.init(ecdsa: info)
        case NID_rsaEncryption?: try self.init(rsa: info)
        case NID_ED25519?, nil: throw KeyError(.notAKey, "malformed SubjectPublicKeyInfo")
        case .some: throw Self.wrongAlgorithm(AlgorithmName.of(subjectPublicKeyInfo: info) ?? "an unknown algorithm")
        }
    }

    /// Reads a public key from a PEM text with the label `PUBLIC KEY`. `imgtool getpub -e pem` and `openssl pkey -pubout` write this
    /// format.
    ///
    /// - Throws: the errors of `init(subjectPublicKeyInfo:)`; `key-too-large`; `crypto-failed`.
    public init(pem: SecretBytes) throws(KeyError) {
        let block = try PEMBlock(in: pem, labels: "PUBLIC KEY", algorithms: Algorithm.list)
        try self.init(subjectPublicKeyInfo: block.contents.withUnsafeBytes { Array($0) })
    }

    /// Returns this key as a PEM text. The text is identical to the output of `openssl pkey -pubout`.
    public func pem() throws(KeyError) -> SecretBytes {
        try KeyError.translating { () throws(OpenSSLFailure) in
            try PEMBlock.write(subjectPublicKeyInfo, label: "PUBLIC KEY")
        }
    }

    private init(_ algorithm: Algorithm, _ info: [UInt8], encoded: [UInt8]) throws(KeyError) {
        guard let id = KeyID(bytes: SHA256.digest(of: encoded).prefix) else {
            throw KeyError(.cryptography, "the SHA-256 digest is shorter than a key ID")
        }
        self.algorithm = algorithm
        self.id = id
        subjectPublicKeyInfo = info
        self.encoded = encoded
        bundleKey = nil
    }

    // MARK: ECDSA

    /// The first bytes of every SubjectPublicKeyInfo with an uncompressed point on P-256 (RFC 5480, section 2). The two coordinates of the
    /// point (64 bytes) follow. DER has exactly one encoding for each value, so a comparison with these bytes replaces a parser.
    private static let p256Header: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce,
        0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
    ]

    private init(ecdsa info: [UInt8]) throws(KeyError) {
        guard info.starts(with: Self.p256Header), info.count == Self.p256Header.count + 64 else {
            let curve = AlgorithmName.curve(ofSubjectPublicKeyInfo: info)
            guard curve == NID_X9_62_prime256v1 else {
                throw Self.wrongAlgorithm("ECDSA \(AlgorithmName.curveName(curve))")
            }
            throw KeyError(
                .notAKey, "the ECDSA key is not an uncompressed point",
                hint: "convert it: openssl pkey -pubin -in KEY -ec_conv_form uncompressed -pubout -out KEY.pub.pem")
        }
        _ = try Self.handle(info)
        try self.init(.ecdsaP256, info, encoded: info)
    }

    // MARK: RSA

    /// The allowed lengths of an RSA public exponent in bits. FIPS 186-5 (A.1.1) requires an odd exponent between 2^16 and 2^256. Such an
    /// exponent has 17 to 256 bits.
    private static let exponentBits: ClosedRange<Int32> = 17...256

    private init(rsa info: [UInt8]) throws(KeyError) {
        let handle = try Self.handle(info)
        let (modulus, exponent, isOdd) = try KeyError.translating { () throws(OpenSSLFailure) in
            try handle.rsaParameters()
        }
        let algorithm: Algorithm
        switch modulus {
        case 2048: algorithm = .rsa2048
        case 3072: algorithm = .rsa3072
        default: throw Self.wrongAlgorithm("RSA-\(modulus)")
        }
        guard isOdd, Self.exponentBits.contains(exponent) else {
            throw KeyError(
                .notAKey, "the RSA key's public exponent is unsafe; expected an odd number above 65536, such as 65537",
                hint: "create another key: imgtool keygen -t rsa-2048 -k NAME.pem")
        }
        let encoded = try KeyError.translating { () throws(OpenSSLFailure) in try handle.rsaPublicKey() }
        try self.init(algorithm, info, encoded: encoded)
    }

    /// Parses a public key and checks that `info` is the exact DER encoding of the key. libcrypto also accepts other encodings. Without the
    /// check, one key could have several encodings and therefore several IDs.
    private static func handle(_ info: [UInt8]) throws(KeyError) -> KeyHandle {
        do {
            let handle = try KeyHandle.parsing(subjectPublicKeyInfo: info)
            guard try handle.subjectPublicKeyInfo() == info else {
                throw KeyError(.notAKey, "the SubjectPublicKeyInfo is not encoded as DER")
            }
            return handle
        } catch let error as KeyError {
            throw error
        } catch {
            throw KeyError(.notAKey, "malformed SubjectPublicKeyInfo (\(error))")
        }
    }

    /// Whether the key can verify MCUboot images.
    package var isForImages: Bool { algorithm.signatureType != nil }

    /// Reads the public part of a private key of any algorithm from a PEM text.
    ///
    /// - Throws: the errors of `PrivateKey(pem:passphrase:)` and `ImagePrivateKey(pem:passphrase:)`.
    package init(ofPrivateKey pem: SecretBytes, passphrase: Passphrase? = nil) throws(KeyError) {
        do throws(KeyError) { self.init(try PrivateKey(pem: pem, passphrase: passphrase).publicKey) } catch {
            guard error.code == .wrongAlgorithm else { throw error }
            self = try ImagePrivateKey(pem: pem, passphrase: passphrase).publicKey
        }
    }

    /// Checks that MCUboot supports the algorithm.
    ///
    /// - Throws: `wrong-algorithm`.
    package func expectForImages() throws(KeyError) {
        guard !isForImages else { return }
        throw KeyError(
            .wrongAlgorithm,
            "the key is for \(algorithm.name), which MCUboot does not support; expected \(Algorithm.list)",
            hint: "give another key; or omit --as mcuboot to sign the image into a bundle")
    }

    /// Returns the error for a key whose algorithm is not supported.
    ///
    /// - Parameter found: the name of the key's algorithm.
    static func wrongAlgorithm(_ found: String) -> KeyError {
        KeyError(
            .wrongAlgorithm, "the key is for \(found); expected \(Algorithm.list)",
            hint:
                "use a bootloader with a key of one of these algorithms (example: imgtool keygen -t ecdsa-p256 -k NAME.pem)"
        )
    }
}

extension ImagePublicKey: Hashable {
    public static func == (left: ImagePublicKey, right: ImagePublicKey) -> Bool {
        left.subjectPublicKeyInfo == right.subjectPublicKeyInfo
    }
    public func hash(into hasher: inout Hasher) { hasher.combine(subjectPublicKeyInfo) }
}

extension ImagePublicKey {
    /// The maximum length of an ECDSA P-256 signature, in bytes. The option `--pad-sig` of imgtool 2.5.0 appends zero bytes to a shorter
    /// signature, up to this length (`keys/ecdsa.py`).
    private static let paddedLength = 72

    /// Returns whether `signature` is a valid ECDSA or RSA signature by this key. The signed data is the SHA-256 of `message`.
    ///
    /// An RSA signature must be RSASSA-PSS with MGF1-SHA-256 and a salt of 32 bytes, and must be as long as the modulus. An ECDSA signature
    /// must be in DER. The zero bytes that imgtool appends to an ECDSA signature (`paddedLength`) are allowed.
    ///
    /// For an Ed25519 or ML-DSA key, the result is always false. Use `bundleKey` to verify its signatures.
    func verify(signature: [UInt8], ofDigestOf message: ArraySlice<UInt8>) -> Bool {
        let padding: SignaturePadding
        var signature = signature
        switch algorithm {
        case .ed25519, .mlDSA44, .mlDSA65, .mlDSA87: return false
        case .ecdsaP256:
            padding = .none
            signature = Self.unpadded(signature)
        case .rsa2048, .rsa3072:
            padding = .pss
            guard signature.count == (algorithm == .rsa2048 ? 256 : 384) else { return false }
        }
        do {
            let handle = try KeyHandle.parsing(subjectPublicKeyInfo: subjectPublicKeyInfo)
            try message.withUnsafeBufferPointer { (bytes) throws(OpenSSLFailure) in
                try handle.verifyDigest(signature, of: bytes, padding)
            }
            return true
        } catch {
            return false
        }
    }

    /// Removes the zero bytes that imgtool appends to an ECDSA signature. A signature with these zero bytes has exactly 72 bytes
    /// (`paddedLength`).
    ///
    /// If a byte other than zero follows the DER sequence, this method returns the signature unchanged, and libcrypto later refuses the
    /// signature.
    private static func unpadded(_ signature: [UInt8]) -> [UInt8] {
        guard signature.count == paddedLength else { return signature }
        let length = Int(signature[1]) + 2
        guard length < signature.count, signature[length...].allSatisfy({ $0 == 0 }) else { return signature }
        return Array(signature.prefix(length))
    }
}

internal import COpenSSL
internal import OTAFirmware

/// A private key that signs MCUboot images: Ed25519, ECDSA P-256, RSA-2048 or RSA-3072. For bundles, use ``PrivateKey``.
///
/// The secret bytes are in libcrypto's memory. libcrypto overwrites these bytes when the last reference to the key is released.
public final class ImagePrivateKey: ImageSigner {
    public let publicKey: ImagePublicKey
    private let handle: KeyHandle

    /// - Throws: `wrong-algorithm` for an ML-DSA key.
    public init(_ key: PrivateKey) throws(KeyError) {
        publicKey = ImagePublicKey(key.publicKey)
        handle = key.handle
        try publicKey.expectForImages()
    }

    private init(_ handle: KeyHandle) throws(KeyError) {
        let info = try KeyError.translating { () throws(OpenSSLFailure) in try handle.subjectPublicKeyInfo() }
        publicKey = try ImagePublicKey(subjectPublicKeyInfo: info)
        self.handle = handle
    }

    /// Reads a private key from a PEM text in one of these formats:
    ///
    /// - PKCS#8, with or without encryption. `imgtool keygen` and `openssl genpkey` write this format.
    /// - The older formats `EC PRIVATE KEY` (RFC 5915) and `RSA PRIVATE KEY` (PKCS#1), without encryption. Some sample keys of MCUboot have
    ///   these formats.
    ///
    /// If the key is not encrypted, the passphrase is ignored.
    ///
    /// - Throws: `not-a-key`, `wrong-algorithm`, `passphrase-required`, `wrong-passphrase`, `key-too-large`, `crypto-failed`.
    public convenience init(pem: SecretBytes, passphrase: Passphrase? = nil) throws(KeyError) {
        let block = try PEMBlock(
            in: pem, labels: "PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY",
            algorithms: ImagePublicKey.Algorithm.list)
        switch (block.label, passphrase) {
        case ("PRIVATE KEY", _): try self.init(PrivateKeyInfo(der: block.contents).imageKey())
        case ("ENCRYPTED PRIVATE KEY", let passphrase?):
            try self.init(PrivateKeyInfo(decrypting: block.contents, with: passphrase).imageKey())
        case ("ENCRYPTED PRIVATE KEY", nil):
            throw KeyError(.passphraseRequired, "the key is encrypted with a passphrase")
        case ("EC PRIVATE KEY", _): try self.init(Self.parse(block, EVP_PKEY_EC))
        default: try self.init(Self.parse(block, EVP_PKEY_RSA))
        }
    }

    /// Parses a key in one of the older formats, `EC PRIVATE KEY` or `RSA PRIVATE KEY`.
    ///
    /// - Parameter type: libcrypto's constant for the algorithm, such as `EVP_PKEY_EC`.
    /// - Throws: `not-a-key` if the key is malformed.
    private static func parse(_ block: PEMBlock, _ type: Int32) throws(KeyError) -> KeyHandle {
        let parsed = block.contents.parsed(by: { d2i_PrivateKey(type, nil, $0, $1) }, freedBy: EVP_PKEY_free)
        guard let parsed else {
            throw KeyError(.notAKey, "malformed \(block.label) (\(OpenSSLFailure.drain()))")
        }
        return KeyHandle(owning: parsed)
    }

    /// Returns the signature of `message`. An Ed25519 key signs the message itself. An ECDSA or RSA key signs the SHA-256 of the message.
    ///
    /// With ECDSA and RSA, each call returns a different signature of the same message, because both algorithms use random numbers.
    ///
    /// - Throws: `not-a-key` if the private and the public part of the key do not match; `crypto-failed`.
    public func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8] {
        guard publicKey.algorithm != .ed25519 else {
            return try KeyError.translating { () throws(OpenSSLFailure) in
                try handle.sign(message, .ed25519, context: [])
            }
        }
        let signature = try KeyError.translating { () throws(OpenSSLFailure) in
            try handle.signDigest(of: message, publicKey.algorithm == .ecdsaP256 ? .none : .pss)
        }
        // A damaged private key creates invalid signatures. From an invalid RSA signature, an attacker may be able to compute the private
        // key. This method therefore never returns an invalid signature.
        guard publicKey.verify(signature: signature, ofDigestOf: message[...]) else {
            throw KeyError(.notAKey, "the private and the public part of the key do not match")
        }
        return signature
    }
}

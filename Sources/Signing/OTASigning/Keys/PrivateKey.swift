internal import COpenSSL
public import OTAFirmware

/// An Ed25519 or ML-DSA private key. It signs bundles. An Ed25519 key also signs MCUboot images.
///
/// The secret bytes are in libcrypto's memory. libcrypto overwrites these bytes when the last reference to the key is released.
public final class PrivateKey: Signer {
    public let publicKey: PublicKey
    let handle: KeyHandle

    private init(_ handle: KeyHandle, _ algorithm: SignatureAlgorithm) throws(KeyError) {
        let bytes = try KeyError.translating { () throws(OpenSSLFailure) in try handle.publicKey(algorithm) }
        publicKey = try PublicKey(algorithm: algorithm, bytes: bytes)
        self.handle = handle
    }

    /// Generates a new key from random numbers of the operating system.
    ///
    /// - Throws: `unsupported-openssl`, `crypto-failed`.
    public static func generate(_ algorithm: SignatureAlgorithm = .ed25519) throws(KeyError) -> PrivateKey {
        try algorithm.expectAvailable()
        return try PrivateKey(
            KeyError.translating { () throws(OpenSSLFailure) in try KeyHandle.generate(algorithm) }, algorithm)
    }

    /// Creates an Ed25519 private key from a seed of 32 bytes, which RFC 8032 calls the "private key".
    package convenience init(seed: [UInt8]) throws(KeyError) {
        try self.init(KeyError.translating { () throws(OpenSSLFailure) in try KeyHandle.ed25519(seed: seed) }, .ed25519)
    }

    /// Returns the signature of `message`. Each call returns the same signature of the same message, because Ed25519 and deterministic
    /// ML-DSA do not use random numbers.
    public func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] {
        try KeyError.translating { () throws(OpenSSLFailure) in
            try handle.sign(message, publicKey.algorithm, context: domain.context)
        }
    }
}

extension PrivateKey {
    /// Reads a private key in the format PKCS#8 from a PEM text. `openssl genpkey` and `openssl pkcs8 -topk8` write this format.
    ///
    /// If the key is not encrypted, the passphrase is ignored.
    ///
    /// - Throws: `not-a-key`, `wrong-algorithm`, `unsupported-openssl`, `passphrase-required`, `wrong-passphrase`, `key-too-large`,
    ///   `crypto-failed`.
    public convenience init(pem: SecretBytes, passphrase: Passphrase? = nil) throws(KeyError) {
        let block = try PEMBlock(in: pem, labels: "PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
        if block.label == "PRIVATE KEY" {
            try self.init(PrivateKeyInfo(der: block.contents))
        } else if let passphrase {
            try self.init(PrivateKeyInfo(decrypting: block.contents, with: passphrase))
        } else {
            throw KeyError(.passphraseRequired, "the key is encrypted with a passphrase")
        }
    }

    private convenience init(_ info: consuming PrivateKeyInfo) throws(KeyError) {
        let (handle, algorithm) = try info.bundleKey()
        try self.init(handle, algorithm)
    }

    /// Returns this key in the format PKCS#8 as a PEM text.
    ///
    /// With a passphrase, the text is encrypted with AES-256-CBC. The encryption key is derived from the passphrase with scrypt (N = 16384,
    /// r = 8, p = 1), which takes about 60 ms. Without a passphrase, the text is not encrypted.
    public func pem(passphrase: Passphrase? = nil) throws(KeyError) -> SecretBytes {
        try KeyError.translating { () throws(OpenSSLFailure) in
            let info = try PrivateKeyInfo(handle)
            guard let passphrase else { return try info.pem() }
            return try info.pem(encryptedWith: passphrase)
        }
    }
}

internal import COpenSSL

/// An Ed25519 private key. It signs bundles and MCUboot images.
///
/// The secret bytes are in libcrypto's memory. libcrypto overwrites these bytes when the last reference to the key is released.
public final class PrivateKey: Signer {
    public let publicKey: PublicKey
    let handle: KeyHandle

    private init(_ handle: KeyHandle) throws(KeyError) {
        let bytes = try KeyError.translating { () throws(OpenSSLFailure) in try handle.publicKey() }
        publicKey = try PublicKey(bytes: bytes)
        self.handle = handle
    }

    /// Generates a new key from random numbers of the operating system.
    public static func generate() throws(KeyError) -> PrivateKey {
        try PrivateKey(KeyError.translating { () throws(OpenSSLFailure) in try KeyHandle.generate() })
    }

    /// Creates a private key from a seed of 32 bytes, which RFC 8032 calls the "private key".
    package convenience init(seed: [UInt8]) throws(KeyError) {
        try self.init(KeyError.translating { () throws(OpenSSLFailure) in try KeyHandle.ed25519(seed: seed) })
    }

    /// Returns the signature of `message`. The signature has 64 bytes. Each call returns the same signature of the same message, because
    /// Ed25519 does not use random numbers.
    public func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8] {
        try KeyError.translating { () throws(OpenSSLFailure) in try handle.sign(message) }
    }
}

extension PrivateKey {
    /// Reads a private key in the format PKCS#8 from a PEM text. `openssl genpkey` and `openssl pkcs8 -topk8` write this format.
    ///
    /// If the key is not encrypted, the passphrase is ignored.
    ///
    /// - Throws: `not-a-key`, `wrong-algorithm`, `passphrase-required`, `wrong-passphrase`, `key-too-large`, `crypto-failed`.
    public convenience init(pem: SecretBytes, passphrase: Passphrase? = nil) throws(KeyError) {
        let block = try PEMBlock(in: pem, labels: "PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
        if block.label == "PRIVATE KEY" {
            try self.init(PrivateKeyInfo(der: block.contents).ed25519Key())
        } else if let passphrase {
            try self.init(PrivateKeyInfo(decrypting: block.contents, with: passphrase).ed25519Key())
        } else {
            throw KeyError(.passphraseRequired, "the key is encrypted with a passphrase")
        }
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

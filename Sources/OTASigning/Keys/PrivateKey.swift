internal import COpenSSL

/// An Ed25519 private key. libcrypto holds the secret and wipes it when the last reference is released.
public final class PrivateKey: Sendable {
    public let publicKey: PublicKey
    private let handle: KeyHandle

    private init(_ handle: KeyHandle) throws(KeyError) {
        let bytes = try KeyError.translating { () throws(OpenSSLFailure) in try handle.publicKey() }
        publicKey = try PublicKey(bytes: bytes)
        self.handle = handle
    }

    /// Generates a new key from the system's random numbers.
    public static func generate() throws(KeyError) -> PrivateKey {
        try PrivateKey(KeyError.translating { () throws(OpenSSLFailure) in try KeyHandle.generate() })
    }

    /// Creates the key of a 32-byte seed, which RFC 8032 calls the secret key.
    package convenience init(seed: [UInt8]) throws(KeyError) {
        try self.init(KeyError.translating { () throws(OpenSSLFailure) in try KeyHandle.ed25519(seed: seed) })
    }

    /// Signs `message`. The signature has 64 bytes and is always the same for the same message.
    public func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8] {
        try KeyError.translating { () throws(OpenSSLFailure) in try handle.sign(message) }
    }
}

extension PrivateKey {
    /// Reads a PEM text with a PKCS#8 key. `openssl genpkey` and `openssl pkcs8 -topk8` write this format.
    ///
    /// The passphrase is ignored if the key is not encrypted.
    ///
    /// - Throws: `not-a-key`, `wrong-algorithm`, `passphrase-required`, `wrong-passphrase`, `key-too-large`.
    public convenience init(pem: SecretBytes, passphrase: Passphrase? = nil) throws(KeyError) {
        let block = try PEMBlock(in: pem, labels: "PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
        if block.label == "PRIVATE KEY" {
            try self.init(PrivateKeyInfo(der: block.contents).key())
        } else if let passphrase {
            try self.init(PrivateKeyInfo(decrypting: block.contents, with: passphrase).key())
        } else {
            throw KeyError(.passphraseRequired, "the key is encrypted with a passphrase")
        }
    }

    /// Returns the PEM text of this key as PKCS#8.
    ///
    /// With a passphrase the key is encrypted with AES-256-CBC. scrypt derives the encryption key (N = 16384, r = 8, p = 1), which takes
    /// about 60 ms for each decryption.
    public func pem(passphrase: Passphrase? = nil) throws(KeyError) -> SecretBytes {
        try KeyError.translating { () throws(OpenSSLFailure) in
            let info = try PrivateKeyInfo(handle)
            guard let passphrase else { return try info.pem() }
            return try info.pem(encryptedWith: passphrase)
        }
    }
}

/// Owns a PKCS#8 PrivateKeyInfo (RFC 5208), the file format of a private key of any algorithm. libcrypto wipes it when it is
/// released.
private struct PrivateKeyInfo: ~Copyable {
    private let pointer: OpaquePointer

    init(_ key: KeyHandle) throws(OpenSSLFailure) {
        pointer = try opened(EVP_PKEY2PKCS8(key.pointer))
    }

    /// Parses a PrivateKeyInfo.
    init(der: SecretBytes) throws(KeyError) {
        let parsed = der.parsed(by: { d2i_PKCS8_PRIV_KEY_INFO(nil, $0, $1) }, freedBy: PKCS8_PRIV_KEY_INFO_free)
        guard let parsed else { throw Self.damaged() }
        pointer = parsed
    }

    /// Decrypts and parses an EncryptedPrivateKeyInfo.
    init(decrypting der: SecretBytes, with passphrase: Passphrase) throws(KeyError) {
        let parsed = der.parsed(by: { d2i_X509_SIG(nil, $0, $1) }, freedBy: X509_SIG_free)
        guard let sealed = parsed else { throw Self.damaged() }
        defer { X509_SIG_free(sealed) }
        let opened = passphrase.bytes.withUnsafeBytes { secret in
            PKCS8_decrypt(sealed, secret.bindMemory(to: CChar.self).baseAddress, Int32(secret.count))
        }
        guard let opened else {
            let failure = OpenSSLFailure.drain()
            guard failure.isWrongPassphrase else {
                throw KeyError(.notAKey, "the key's encryption is malformed or not supported (\(failure))")
            }
            throw KeyError(.wrongPassphrase, "the passphrase does not decrypt the key")
        }
        pointer = opened
    }

    deinit { PKCS8_PRIV_KEY_INFO_free(pointer) }

    /// Returns the Ed25519 key inside.
    func key() throws(KeyError) -> KeyHandle {
        var identifier: OpaquePointer?
        guard PKCS8_pkey_get0(&identifier, nil, nil, nil, pointer) == 1 else { throw Self.damaged() }
        guard OBJ_obj2nid(identifier) == NID_ED25519 else {
            let name = AlgorithmName.of(identifier) ?? "an unknown algorithm"
            throw KeyError(.wrongAlgorithm, "the key is for \(name); expected Ed25519")
        }
        guard let key = EVP_PKCS82PKEY(pointer) else { throw Self.damaged() }
        return KeyHandle(owning: key)
    }

    func pem() throws(OpenSSLFailure) -> SecretBytes {
        let output = try MemoryBIO()
        try succeeded(PEM_write_bio_PKCS8_PRIV_KEY_INFO(output.pointer, pointer))
        return output.contents()
    }

    func pem(encryptedWith passphrase: Passphrase) throws(OpenSSLFailure) -> SecretBytes {
        // PEM_write_bio_PKCS8PrivateKey needs only one call, but it uses only 2048 iterations of PBKDF2.
        guard let scheme = PKCS5_pbe2_set_scrypt(EVP_aes_256_cbc(), nil, 0, nil, 16384, 8, 1) else {
            throw OpenSSLFailure.drain()
        }
        let sealed = passphrase.bytes.withUnsafeBytes { secret in
            PKCS8_set0_pbe(secret.bindMemory(to: CChar.self).baseAddress, Int32(secret.count), pointer, scheme)
        }
        guard let sealed else {
            X509_ALGOR_free(scheme)
            throw OpenSSLFailure.drain()
        }
        defer { X509_SIG_free(sealed) }
        let output = try MemoryBIO()
        try succeeded(PEM_write_bio_PKCS8(output.pointer, sealed))
        return output.contents()
    }

    private static func damaged() -> KeyError {
        KeyError(.notAKey, "malformed PKCS#8 structure (\(OpenSSLFailure.drain()))")
    }
}

extension SecretBytes {
    /// Parses these bytes with a d2i function. Returns nil if the function fails or does not read all bytes.
    fileprivate func parsed(
        by parse: (UnsafeMutablePointer<UnsafePointer<UInt8>?>, Int) -> OpaquePointer?,
        freedBy free: (OpaquePointer?) -> Void
    ) -> OpaquePointer? {
        withUnsafeBytes { bytes in
            var next = bytes.bindMemory(to: UInt8.self).baseAddress
            let end = next.map { $0 + bytes.count }
            guard let parsed = parse(&next, bytes.count) else { return nil }
            guard next == end else {
                free(parsed)
                return nil
            }
            return parsed
        }
    }
}

extension OpenSSLFailure {
    /// Whether the padding or the decrypted structure is wrong. The padding alone is not a sufficient check: it is valid for one
    /// wrong passphrase in 256.
    fileprivate var isWrongPassphrase: Bool {
        holds(library: ERR_LIB_PROV, anyOf: PROV_R_BAD_DECRYPT) || entries.contains { $0.library == ERR_LIB_ASN1 }
    }
}

internal import COpenSSL
internal import OTAFirmware

/// Owns a PrivateKeyInfo, the DER structure for a private key of any algorithm (PKCS#8, RFC 5208). libcrypto overwrites the structure in
/// memory when this value is destroyed.
///
/// Version 2 of the structure (OneAsymmetricKey, RFC 5958) can also contain the public key. libcrypto 3.0 reads only version 1.
struct PrivateKeyInfo: ~Copyable {
    private let pointer: OpaquePointer
    /// The public key in a structure of version 2, as a BIT STRING in DER; otherwise nil.
    private let publicKey: [UInt8]?

    init(_ key: KeyHandle) throws(OpenSSLFailure) {
        pointer = try opened(EVP_PKEY2PKCS8(key.pointer))
        publicKey = nil
    }

    /// Parses an unencrypted PrivateKeyInfo.
    ///
    /// - Throws: `not-a-key`.
    init(der: SecretBytes) throws(KeyError) {
        let (der, publicKey) = Self.withoutPublicKey(der)
        let parsed = der.parsed(by: { d2i_PKCS8_PRIV_KEY_INFO(nil, $0, $1) }, freedBy: PKCS8_PRIV_KEY_INFO_free)
        guard let parsed else { throw Self.damaged() }
        pointer = parsed
        self.publicKey = publicKey
    }

    /// Removes the public key from a structure of version 2, and returns it as a BIT STRING. Returns every other structure unchanged.
    private static func withoutPublicKey(_ der: SecretBytes) -> (SecretBytes, publicKey: [UInt8]?) {
        der.withUnsafeBytes { bytes in
            var outer = DERReader(bytes)
            guard let structure = outer.next(), structure.tag == DERReader.sequence, outer.isAtEnd else {
                return (der, nil)
            }
            var members = DERReader(structure.contents)
            guard let version = members.next(), version.encoded.elementsEqual([DERReader.integer, 1, 1]) else {
                return (der, nil)
            }
            var kept = version.encoded.count
            var key: [UInt8]?
            while let member = members.next() {
                // The public key is the last member, and has the tag [1].
                if member.tag == 0x81, members.isAtEnd {
                    key = DERReader.header(DERReader.bitString, length: member.contents.count) + member.contents
                } else {
                    kept += member.encoded.count
                }
            }
            guard let key, members.isAtEnd else { return (der, nil) }
            let rest = UnsafeRawBufferPointer(rebasing: structure.contents[..<kept])
            let header = DERReader.header(DERReader.sequence, length: rest.count)
            let copy = SecretBytes(capacity: header.count + rest.count) { (buffer) throws(Never) in
                buffer.copyBytes(from: header)
                UnsafeMutableRawBufferPointer(rebasing: buffer[header.count...]).copyMemory(from: rest)
                return header.count + rest.count
            }
            return (copy, key)
        }
    }

    /// Decrypts an EncryptedPrivateKeyInfo (PKCS#8) and parses the decrypted PrivateKeyInfo.
    ///
    /// - Throws: `not-a-key`, `wrong-passphrase`.
    init(decrypting der: SecretBytes, with passphrase: Passphrase) throws(KeyError) {
        let parsed = der.parsed(by: { d2i_X509_SIG(nil, $0, $1) }, freedBy: X509_SIG_free)
        guard let sealed = parsed else { throw Self.damaged() }
        defer { X509_SIG_free(sealed) }
        var algorithm: UnsafePointer<X509_ALGOR>?
        var contents: UnsafePointer<ASN1_OCTET_STRING>?
        X509_SIG_get0(sealed, &algorithm, &contents)
        var data: UnsafeMutablePointer<UInt8>?
        var count: Int32 = 0
        let opened = passphrase.bytes.withUnsafeBytes { secret in
            PKCS12_pbe_crypt(
                algorithm, secret.bindMemory(to: CChar.self).baseAddress, Int32(secret.count),
                ASN1_STRING_get0_data(contents), ASN1_STRING_length(contents), &data, &count, 0)
        }
        defer { CRYPTO_clear_free(data, Int(count), #file, #line) }
        guard opened != nil, let data else {
            let failure = OpenSSLFailure.drain()
            guard failure.isWrongPassphrase else {
                throw KeyError(
                    .notAKey, "the key's encryption is malformed or not supported (\(failure))",
                    hint: "convert it: openssl pkcs8 -topk8 -provider legacy -provider default -in KEY -out NEW.pem")
            }
            throw Self.wrongPassphrase
        }
        // A wrong passphrase can result in a valid padding by chance. The decrypted bytes are then not a PrivateKeyInfo.
        let decrypted = SecretBytes(copying: UnsafeBufferPointer(start: data, count: Int(count)))
        do { self = try PrivateKeyInfo(der: decrypted) } catch { throw Self.wrongPassphrase }
    }

    private static var wrongPassphrase: KeyError {
        KeyError(.wrongPassphrase, "the passphrase does not decrypt the key")
    }

    deinit { PKCS8_PRIV_KEY_INFO_free(pointer) }

    /// Returns the private key and its algorithm. The key must be an Ed25519 or ML-DSA key.
    ///
    /// - Throws: `wrong-algorithm`, `not-a-key`; `unsupported-openssl` for an ML-DSA key, if libcrypto does not support ML-DSA.
    func bundleKey() throws(KeyError) -> (KeyHandle, SignatureAlgorithm) {
        guard let algorithm = SignatureAlgorithm(try identifier()) else {
            throw KeyError(
                .wrongAlgorithm, "the key is for \(try algorithmName()); expected \(SignatureAlgorithm.list)")
        }
        try algorithm.expectAvailable()
        return (try key(), algorithm)
    }

    /// Returns the private key. The key must be an Ed25519, EC or RSA key. `ImagePublicKey` checks the curve and the key length later.
    ///
    /// - Throws: `wrong-algorithm`, `not-a-key`.
    func imageKey() throws(KeyError) -> KeyHandle {
        guard [NID_ED25519, NID_X9_62_id_ecPublicKey, NID_rsaEncryption].contains(try algorithm()) else {
            throw ImagePublicKey.wrongAlgorithm(try algorithmName())
        }
        return try key()
    }

    private func key() throws(KeyError) -> KeyHandle {
        guard let key = EVP_PKCS82PKEY(pointer) else { throw Self.damaged() }
        let handle = KeyHandle(owning: key)
        if let publicKey {
            let own = try KeyError.translating { () throws(OpenSSLFailure) in try handle.subjectPublicKeyInfo() }
            // A SubjectPublicKeyInfo ends with the public key as a BIT STRING.
            guard own.suffix(publicKey.count) == publicKey[...] else {
                throw KeyError(.notAKey, "the private and the public part of the key do not match")
            }
        }
        return handle
    }

    /// Returns the key's algorithm as libcrypto's constant (NID), such as `NID_ED25519`.
    private func algorithm() throws(KeyError) -> Int32 { OBJ_obj2nid(try identifier()) }

    private func algorithmName() throws(KeyError) -> String {
        AlgorithmName.of(try identifier()) ?? "an unknown algorithm"
    }

    private func identifier() throws(KeyError) -> OpaquePointer? {
        var identifier: OpaquePointer?
        guard PKCS8_pkey_get0(&identifier, nil, nil, nil, pointer) == 1 else { throw Self.damaged() }
        return identifier
    }

    func pem() throws(OpenSSLFailure) -> SecretBytes {
        let output = try MemoryBIO()
        try succeeded(PEM_write_bio_PKCS8_PRIV_KEY_INFO(output.pointer, pointer))
        return output.contents()
    }

    func pem(encryptedWith passphrase: Passphrase) throws(OpenSSLFailure) -> SecretBytes {
        // Do not use PEM_write_bio_PKCS8PrivateKey instead of the calls below. PEM_write_bio_PKCS8PrivateKey derives the encryption key
        // from the passphrase with only 2048 iterations of PBKDF2, which is weaker than scrypt.
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
    /// Parses these bytes with `parse`, a DER parser of libcrypto (a d2i function). Returns nil if the parser fails or does not read all
    /// bytes.
    func parsed(
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
    /// True if the error probably means a wrong passphrase, because the decrypted bytes have a wrong padding.
    ///
    /// The result is not certain, because malformed encryption parameters in the file cause DER errors, too.
    fileprivate var isWrongPassphrase: Bool {
        holds(library: ERR_LIB_PROV, anyOf: PROV_R_BAD_DECRYPT) || entries.contains { $0.library == ERR_LIB_ASN1 }
    }
}

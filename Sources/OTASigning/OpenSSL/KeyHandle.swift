internal import COpenSSL

/// Owns an EVP_PKEY. libcrypto wipes a private key when the handle is released.
final class KeyHandle: @unchecked Sendable {  // libcrypto counts references atomically and never changes a key.
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { EVP_PKEY_free(pointer) }

    /// Generates a new Ed25519 key.
    static func generate() throws(OpenSSLFailure) -> KeyHandle {
        let context = try opened(EVP_PKEY_CTX_new_from_name(nil, "ED25519", nil))
        defer { EVP_PKEY_CTX_free(context) }
        try succeeded(EVP_PKEY_keygen_init(context))
        var key: OpaquePointer?
        try succeeded(EVP_PKEY_generate(context, &key))
        return KeyHandle(owning: try opened(key))
    }

    /// Creates the Ed25519 private key of a 32-byte seed.
    static func ed25519(seed: [UInt8]) throws(OpenSSLFailure) -> KeyHandle {
        KeyHandle(owning: try opened(EVP_PKEY_new_raw_private_key_ex(nil, "ED25519", nil, seed, seed.count)))
    }

    /// Creates an Ed25519 public key from 32 raw bytes.
    static func ed25519(publicKey bytes: [UInt8]) throws(OpenSSLFailure) -> KeyHandle {
        KeyHandle(owning: try opened(EVP_PKEY_new_raw_public_key_ex(nil, "ED25519", nil, bytes, bytes.count)))
    }

    /// Returns the raw public key, 32 bytes.
    func publicKey() throws(OpenSSLFailure) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 32)
        var count = bytes.count
        try succeeded(EVP_PKEY_get_raw_public_key(pointer, &bytes, &count))
        return Array(bytes.prefix(count))
    }

    /// Signs the whole message in one call. Ed25519 has no incremental mode. The signature has 64 bytes.
    func sign(_ message: [UInt8]) throws(OpenSSLFailure) -> [UInt8] {
        let context = try opened(EVP_MD_CTX_new())
        defer { EVP_MD_CTX_free(context) }
        try succeeded(EVP_DigestSignInit(context, nil, nil, nil, pointer))
        var signature = [UInt8](repeating: 0, count: 64)
        var count = signature.count
        try succeeded(EVP_DigestSign(context, &signature, &count, message, message.count))
        return Array(signature.prefix(count))
    }

    func verify(_ signature: [UInt8], over message: [UInt8]) throws(OpenSSLFailure) {
        let context = try opened(EVP_MD_CTX_new())
        defer { EVP_MD_CTX_free(context) }
        try succeeded(EVP_DigestVerifyInit(context, nil, nil, nil, pointer))
        try succeeded(EVP_DigestVerify(context, signature, signature.count, message, message.count))
    }
}

/// Names a key's algorithm for messages.
enum AlgorithmName {
    /// Returns the common name, or libcrypto's name of the object identifier, or its numbers with dots.
    static func of(_ identifier: OpaquePointer?) -> String? {
        guard let identifier else { return nil }
        switch OBJ_obj2nid(identifier) {
        case NID_rsaEncryption, NID_rsassaPss: return "RSA"
        case NID_X9_62_id_ecPublicKey: return "EC"
        case NID_dsa: return "DSA"
        default: break
        }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
            let count = Int(OBJ_obj2txt(buffer.baseAddress, Int32(buffer.count), identifier, 0))
            guard count > 0, let start = buffer.baseAddress else { return nil }
            return String(cString: start)
        }
    }
}

import COpenSSL

/// Independent implementations of SHA-256, Ed25519 and CRC-32, to check the core.
enum Crypto {
    static func sha256(_ bytes: [UInt8]) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 32)
        EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha256(), nil)
        return digest
    }

    static func verify(_ signature: [UInt8], over message: [UInt8], by publicKey: [UInt8]) -> Bool {
        let key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nil, publicKey, publicKey.count)
        let context = EVP_MD_CTX_new()
        defer {
            EVP_PKEY_free(key)
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        return EVP_DigestVerifyInit(context, nil, nil, nil, key) == 1
            && EVP_DigestVerify(context, signature, signature.count, message, message.count) == 1
    }

    /// The CRC-32 of IEEE 802.3. A test compares it with the check value of the profile.
    static func crc32(_ bytes: some Sequence<UInt8>) -> UInt32 {
        ~bytes.reduce(UInt32.max) { crc, byte in crc >> 8 ^ crcTable[Int(UInt8(truncatingIfNeeded: crc) ^ byte)] }
    }

    private static let crcTable: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { crc, _ in crc & 1 == 1 ? crc >> 1 ^ 0xEDB8_8320 : crc >> 1 }
    }
}

/// An Ed25519 key pair from its 32 secret bytes, or a substitute for an ML-DSA key pair. The tests of the core's rules need no ML-DSA,
/// because the core calls `ota_port.verify`.
struct SigningKey: Sendable {
    let secret, publicKey, id: [UInt8]
    var algorithm: UInt8 = 1

    init(secret: [UInt8]) {
        let key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, secret, secret.count)
        defer { EVP_PKEY_free(key) }
        var count = 32
        var raw = [UInt8](repeating: 0, count: count)
        EVP_PKEY_get_raw_public_key(key, &raw, &count)
        self.secret = secret
        publicKey = raw
        id = Array(Crypto.sha256(raw).prefix(8))
    }

    /// A key whose signature has the length of the algorithm, and depends on the key and the message.
    init(substituteFor algorithm: UInt8, name: String) {
        secret = Array(name.utf8)
        publicKey = Crypto.sha256(secret)
        id = Array(Crypto.sha256(publicKey).prefix(8))
        self.algorithm = algorithm
    }

    /// The length of a signature of an algorithm (FIPS 204, table 2).
    static func signatureLength(_ algorithm: UInt8) -> Int { [1: 64, 2: 2420, 3: 3309, 4: 4627][algorithm] ?? 100 }

    /// The entry of the signature in an envelope.
    func entry(_ message: [UInt8]) -> [UInt8] {
        let signature = sign(message)
        return [algorithm, 0] + little(UInt16(signature.count)) + id + signature
    }

    func verify(_ signature: [UInt8], over message: [UInt8]) -> Bool {
        algorithm == 1 ? Crypto.verify(signature, over: message, by: publicKey) : signature == sign(message)
    }

    func sign(_ message: [UInt8]) -> [UInt8] {
        guard algorithm == 1 else {
            let pattern = Crypto.sha256([algorithm] + secret + message)
            return (0..<Self.signatureLength(algorithm)).map { pattern[$0 % 32] }
        }
        let key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, secret, secret.count)
        let context = EVP_MD_CTX_new()
        defer {
            EVP_PKEY_free(key)
            EVP_MD_CTX_free(context)
        }
        var count = 64
        var signature = [UInt8](repeating: 0, count: count)
        EVP_DigestSignInit(context, nil, nil, nil, key)
        EVP_DigestSign(context, &signature, &count, message, message.count)
        return signature
    }

    /// The key of RFC 8032, section 7.1, test 1. The example of the specification uses it.
    static let rfc8032 = SigningKey(
        secret: bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
    static let second = SigningKey(secret: [UInt8](repeating: 0x22, count: 32))
    static let third = SigningKey(secret: [UInt8](repeating: 0x33, count: 32))
    static let fourth = SigningKey(secret: [UInt8](repeating: 0x44, count: 32))
    static let stranger = SigningKey(secret: [UInt8](repeating: 0x55, count: 32))
}

internal import COpenSSL
internal import OTAFirmware

/// Owns an `EVP_PKEY`, libcrypto's structure for a public or private key. libcrypto overwrites a private key in memory when the handle is
/// released.
final class KeyHandle: @unchecked Sendable {  // libcrypto counts references atomically and never changes a key.
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) { self.pointer = pointer }

    deinit { EVP_PKEY_free(pointer) }

    /// Generates a new key from random numbers of the operating system.
    static func generate(_ algorithm: SignatureAlgorithm) throws(OpenSSLFailure) -> KeyHandle {
        let context = try opened(EVP_PKEY_CTX_new_from_name(nil, algorithm.opensslName, nil))
        defer { EVP_PKEY_CTX_free(context) }
        try succeeded(EVP_PKEY_keygen_init(context))
        var key: OpaquePointer?
        try succeeded(EVP_PKEY_generate(context, &key))
        return KeyHandle(owning: try opened(key))
    }

    /// Creates an Ed25519 private key from a 32-byte seed.
    static func ed25519(seed: [UInt8]) throws(OpenSSLFailure) -> KeyHandle {
        KeyHandle(owning: try opened(EVP_PKEY_new_raw_private_key_ex(nil, "ED25519", nil, seed, seed.count)))
    }

    /// Creates a public key from its raw bytes.
    static func publicKey(_ algorithm: SignatureAlgorithm, _ bytes: [UInt8]) throws(OpenSSLFailure) -> KeyHandle {
        KeyHandle(
            owning: try opened(EVP_PKEY_new_raw_public_key_ex(nil, algorithm.opensslName, nil, bytes, bytes.count)))
    }

    /// Returns the raw bytes of the public part of an Ed25519 or ML-DSA key.
    func publicKey(_ algorithm: SignatureAlgorithm) throws(OpenSSLFailure) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: algorithm.publicKeyLength)
        var count = bytes.count
        try succeeded(EVP_PKEY_get_raw_public_key(pointer, &bytes, &count))
        return Array(bytes.prefix(count))
    }

    /// Returns the Ed25519 or ML-DSA signature of a message. libcrypto cannot sign a message incrementally with these algorithms, so the
    /// caller must pass the whole message.
    ///
    /// An ML-DSA signature is deterministic, as an Ed25519 signature is (FIPS 204, 3.4): the same key and the same message have the same
    /// signature.
    ///
    /// - Parameter context: the context string of ML-DSA. An Ed25519 signature has no context.
    func sign(
        _ message: [UInt8], _ algorithm: SignatureAlgorithm, context: [UInt8]
    ) throws(OpenSSLFailure) -> [UInt8] {
        let state = try opened(EVP_MD_CTX_new())
        defer { EVP_MD_CTX_free(state) }
        try succeeded(
            SignatureParameters(algorithm, context).withUnsafePointer(isSigning: true) {
                EVP_DigestSignInit_ex(state, nil, nil, nil, nil, pointer, $0)
            })
        var signature = [UInt8](repeating: 0, count: algorithm.signatureLength)
        var count = signature.count
        try succeeded(EVP_DigestSign(state, &signature, &count, message, message.count))
        return Array(signature.prefix(count))
    }

    /// The error that EVP_DigestVerify of OpenSSL 3.5 adds for each invalid signature: EVP_R_PROVIDER_SIGNATURE_FAILURE. OpenSSL 3.0 adds
    /// no error, and its headers do not define the number.
    private static let invalidSignature = OpenSSLFailure.Entry(library: ERR_LIB_EVP, reason: 234)

    /// Returns whether an Ed25519 or ML-DSA signature is valid.
    ///
    /// - Throws: the errors of libcrypto if it could not verify the signature. Then it is not known whether the signature is valid.
    func verify(
        _ signature: [UInt8], over message: [UInt8], _ algorithm: SignatureAlgorithm, context: [UInt8]
    ) throws(OpenSSLFailure) -> Bool {
        let state = try opened(EVP_MD_CTX_new())
        defer { EVP_MD_CTX_free(state) }
        try succeeded(
            SignatureParameters(algorithm, context).withUnsafePointer(isSigning: false) {
                EVP_DigestVerifyInit_ex(state, nil, nil, nil, nil, pointer, $0)
            })
        // libcrypto also returns 0 if, for example, it has no memory. Only then, the queue has an error of another cause.
        ERR_clear_error()
        let result = EVP_DigestVerify(state, signature, signature.count, message, message.count)
        guard result != 1 else { return true }
        let failure = OpenSSLFailure.drain()
        guard result == 0, failure.entries.allSatisfy({ $0 == Self.invalidSignature }) else { throw failure }
        return false
    }
}

/// The parameters of an ML-DSA signature. An Ed25519 signature has no parameters.
private struct SignatureParameters {
    private let algorithm: SignatureAlgorithm
    private let context: [UInt8]

    init(_ algorithm: SignatureAlgorithm, _ context: [UInt8]) { (self.algorithm, self.context) = (algorithm, context) }

    /// The names of the parameters. The headers of OpenSSL 3.0 do not define them (EVP_SIGNATURE-ML-DSA(7)).
    private static let contextName: StaticString = "context-string"
    private static let deterministicName: StaticString = "deterministic"

    func withUnsafePointer<Result>(
        isSigning: Bool, _ body: (UnsafePointer<OSSL_PARAM>?) -> Result
    ) -> Result {
        guard algorithm != .ed25519 else { return body(nil) }
        var (context, deterministic) = (context, Int32(1))
        return context.withUnsafeMutableBytes { context in
            Swift.withUnsafeMutablePointer(to: &deterministic) { deterministic in
                var list: [OSSL_PARAM] = []
                // libcrypto refuses an empty string without an address. Without the parameter, the context is empty.
                if !context.isEmpty {
                    list.append(
                        OSSL_PARAM_construct_octet_string(
                            Self.text(Self.contextName), context.baseAddress, context.count))
                }
                if isSigning { list.append(OSSL_PARAM_construct_int(Self.text(Self.deterministicName), deterministic)) }
                list.append(OSSL_PARAM_construct_end())
                return body(list)
            }
        }
    }

    private static func text(_ name: StaticString) -> UnsafePointer<CChar> {
        UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
    }
}

// MARK: - Keys of MCUboot images

extension KeyHandle {
    /// Parses a public key in DER (SubjectPublicKeyInfo). For an ECDSA key, libcrypto checks that the point is on the curve.
    static func parsing(subjectPublicKeyInfo info: [UInt8]) throws(OpenSSLFailure) -> KeyHandle {
        let key = info.withUnsafeBufferPointer { buffer in
            var next = buffer.baseAddress
            return d2i_PUBKEY(nil, &next, buffer.count)
        }
        return KeyHandle(owning: try opened(key))
    }

    /// Returns the public key in DER (SubjectPublicKeyInfo).
    func subjectPublicKeyInfo() throws(OpenSSLFailure) -> [UInt8] { try encoded { i2d_PUBKEY(pointer, $0) } }

    /// Returns the public part of an RSA key in DER, as an RSAPublicKey of PKCS#1.
    func rsaPublicKey() throws(OpenSSLFailure) -> [UInt8] { try encoded { i2d_PublicKey(pointer, $0) } }

    /// Returns three parameters of an RSA key: the length of the modulus in bits, the length of the public exponent in bits, and whether
    /// the exponent is odd.
    func rsaParameters() throws(OpenSSLFailure) -> (modulusBits: Int32, exponentBits: Int32, exponentIsOdd: Bool) {
        let modulus = try integer(OSSL_PKEY_PARAM_RSA_N)
        defer { BN_free(modulus) }
        let exponent = try integer(OSSL_PKEY_PARAM_RSA_E)
        defer { BN_free(exponent) }
        return (BN_num_bits(modulus), BN_num_bits(exponent), BN_is_odd(exponent) == 1)
    }

    /// Returns the ECDSA or RSA signature of the SHA-256 of `message`.
    func signDigest(of message: [UInt8], _ padding: SignaturePadding) throws(OpenSSLFailure) -> [UInt8] {
        let context = try opened(EVP_MD_CTX_new())
        defer { EVP_MD_CTX_free(context) }
        var parameters: OpaquePointer?
        try succeeded(EVP_DigestSignInit_ex(context, &parameters, "SHA256", nil, nil, pointer, nil))
        try padding.apply(to: parameters)
        var count = 0
        try succeeded(EVP_DigestSign(context, nil, &count, message, message.count))
        var signature = [UInt8](repeating: 0, count: count)
        try succeeded(EVP_DigestSign(context, &signature, &count, message, message.count))
        return Array(signature.prefix(count))
    }

    /// Verifies an ECDSA or RSA signature of the SHA-256 of `message`. Throws if the signature is invalid.
    func verifyDigest(
        _ signature: [UInt8], of message: UnsafeBufferPointer<UInt8>, _ padding: SignaturePadding
    ) throws(OpenSSLFailure) {
        let context = try opened(EVP_MD_CTX_new())
        defer { EVP_MD_CTX_free(context) }
        var parameters: OpaquePointer?
        try succeeded(EVP_DigestVerifyInit_ex(context, &parameters, "SHA256", nil, nil, pointer, nil))
        try padding.apply(to: parameters)
        try succeeded(EVP_DigestVerify(context, signature, signature.count, message.baseAddress, message.count))
    }

    private func encoded(_ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32)
        throws(OpenSSLFailure)
        -> [UInt8]
    {
        let count = encode(nil)
        guard count > 0 else { throw OpenSSLFailure.drain() }
        var bytes = [UInt8](repeating: 0, count: Int(count))
        let written = bytes.withUnsafeMutableBufferPointer { buffer in
            var next = buffer.baseAddress
            return encode(&next)
        }
        guard written == count else { throw OpenSSLFailure.drain() }
        return bytes
    }

    /// Returns a parameter of the key, such as the RSA modulus, as a `BIGNUM`. The caller must free the `BIGNUM`.
    private func integer(_ name: String) throws(OpenSSLFailure) -> OpaquePointer {
        var number: OpaquePointer?
        try succeeded(EVP_PKEY_get_bn_param(pointer, name, &number))
        return try opened(number)
    }
}

/// The padding scheme of a signature. Only RSA signatures have padding.
enum SignaturePadding {
    /// The signature has no padding, because it is an ECDSA signature.
    case none
    /// The RSA padding RSASSA-PSS with MGF1-SHA-256 and a salt of 32 bytes (imgtool 2.5.0, `keys/rsa.py`; mcuboot, `image_rsa.c`). MCUboot
    /// refuses a signature with another salt length. Therefore otaflash also refuses such a signature.
    case pss

    static let saltLength: Int32 = 32

    fileprivate func apply(to parameters: OpaquePointer?) throws(OpenSSLFailure) {
        guard case .pss = self else { return }
        try succeeded(EVP_PKEY_CTX_set_rsa_padding(parameters, RSA_PKCS1_PSS_PADDING))
        try succeeded(EVP_PKEY_CTX_set_rsa_pss_saltlen(parameters, Self.saltLength))
        try succeeded(EVP_PKEY_CTX_set_rsa_mgf1_md_name(parameters, "SHA256", nil))
    }
}

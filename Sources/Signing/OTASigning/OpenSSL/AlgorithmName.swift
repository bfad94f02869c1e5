internal import COpenSSL
internal import OTAFirmware

/// Finds the algorithm of an encoded key, and the name of the algorithm for messages.
///
/// A SubjectPublicKeyInfo (RFC 5280) is the DER structure of a public key. It contains the algorithm's object identifier and the key.
enum AlgorithmName {
    /// Returns the name of the algorithm with this object identifier, such as `RSA`.
    ///
    /// If libcrypto does not know the identifier, the result is the identifier's numbers, such as `1.2.840.113549`. The result is nil if
    /// `identifier` is nil.
    static func of(_ identifier: OpaquePointer?) -> String? {
        guard let identifier else { return nil }
        if let algorithm = SignatureAlgorithm(identifier) { return algorithm.description }
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

    /// Returns the name of the algorithm in a SubjectPublicKeyInfo. Returns nil if `info` is malformed.
    static func of(subjectPublicKeyInfo info: [UInt8]) -> String? {
        reading(info) { identifier, _ in of(identifier) }
    }

    /// Returns the algorithm in a SubjectPublicKeyInfo as libcrypto's constant (NID), such as `NID_ED25519`. Returns nil if `info` is
    /// malformed.
    static func identifier(ofSubjectPublicKeyInfo info: [UInt8]) -> Int32? {
        reading(info) { identifier, _ in OBJ_obj2nid(identifier) }
    }

    /// Returns the curve of an EC key as libcrypto's constant (NID), such as `NID_secp384r1`. Returns nil if `info` is malformed or does
    /// not contain the name of a curve.
    static func curve(ofSubjectPublicKeyInfo info: [UInt8]) -> Int32? {
        reading(info) { _, algorithm in
            var kind: Int32 = 0
            var value: UnsafeRawPointer?
            X509_ALGOR_get0(nil, &kind, &value, algorithm)
            guard kind == V_ASN1_OBJECT, let value else { return nil }
            return OBJ_obj2nid(OpaquePointer(value))
        }
    }

    /// Returns the description of a curve, such as `P-256`. Messages contain the description after the word `ECDSA`, as in `ECDSA P-256` or
    /// `ECDSA with explicit parameters`.
    ///
    /// - Parameter curve: libcrypto's constant (NID) for the curve; nil for a key without the name of a curve.
    static func curveName(_ curve: Int32?) -> String {
        switch curve {
        case nil: "with explicit parameters"
        case NID_X9_62_prime256v1?: "P-256"
        case NID_secp224r1?: "P-224"
        case NID_secp384r1?: "P-384"
        case NID_secp521r1?: "P-521"
        case let curve?: OBJ_nid2sn(curve).map { String(cString: $0) } ?? "on an unknown curve"
        }
    }

    private static func reading<Result>(
        _ info: [UInt8], _ body: (_ identifier: OpaquePointer?, _ algorithm: UnsafePointer<X509_ALGOR>?) -> Result?
    ) -> Result? {
        defer { _ = OpenSSLFailure.drain() }
        return info.withUnsafeBufferPointer { buffer in
            var next = buffer.baseAddress
            guard let parsed = d2i_X509_PUBKEY(nil, &next, buffer.count) else { return nil }
            defer { X509_PUBKEY_free(parsed) }
            var identifier: OpaquePointer?
            var algorithm: UnsafeMutablePointer<X509_ALGOR>?
            guard X509_PUBKEY_get0_param(&identifier, nil, nil, &algorithm, parsed) == 1 else { return nil }
            return body(identifier, UnsafePointer(algorithm))
        }
    }
}

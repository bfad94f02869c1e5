package import OTASigning

/// Converts keys and signatures from the encodings of PKCS#11 to the encodings of X.509. The bytes come from a token and are not trusted,
/// so each length is checked.
package enum TokenEncoding {
    /// The value of CKA_EC_PARAMS that selects Ed25519 by the name of its curve, a PrintableString (PKCS#11 3.0, 2.3.10).
    static let edwardsName: [UInt8] = [0x13, 0x0C] + Array("edwards25519".utf8)
    /// The value of CKA_EC_PARAMS that selects Ed25519 by its object identifier, 1.3.101.112 (RFC 8410).
    static let edwardsIdentifier: [UInt8] = [0x06, 0x03, 0x2B, 0x65, 0x70]
    /// The value of CKA_EC_PARAMS that selects P-256 by its object identifier, 1.2.840.10045.3.1.7.
    private static let p256Identifier: [UInt8] = [0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07]
    /// The start of a SubjectPublicKeyInfo with a point on P-256. The 65 bytes of the uncompressed point follow.
    private static let p256Header: [UInt8] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48,
        0xCE, 0x3D, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ]

    /// Decodes CKA_EC_POINT of an Ed25519 key: 32 raw bytes (PKCS#11 3.1), an OCTET STRING (softhsm2), or a BIT STRING (PKCS#11 3.0).
    ///
    /// - Throws: `wrong-algorithm` if `point` has none of these encodings; `small-order`.
    package static func edwardsKey(point: [UInt8]) throws(KeyError) -> PublicKey {
        for header in [[], [0x04, 0x20], [0x03, 0x21, 0x00]] as [[UInt8]]
        where point.count == header.count + 32 && point.starts(with: header) {
            return try PublicKey(bytes: Array(point.dropFirst(header.count)))
        }
        throw KeyError(.wrongAlgorithm, "the public key has \(point.count) bytes, so it is not an Ed25519 key")
    }

    /// Decodes CKA_EC_PARAMS and CKA_EC_POINT of an ECDSA key. The point is 65 raw bytes or an OCTET STRING.
    ///
    /// - Throws: `wrong-algorithm` for another curve; `not-a-key`.
    package static func p256Key(parameters: [UInt8], point: [UInt8]) throws(KeyError) -> ImagePublicKey {
        guard parameters == p256Identifier else {
            throw KeyError(.wrongAlgorithm, "the key is for another ECDSA curve; expected P-256")
        }
        let raw = point.count == 67 && point.starts(with: [0x04, 0x41]) ? Array(point.dropFirst(2)) : point
        guard raw.count == 65, raw[0] == 0x04 else {
            throw KeyError(.notAKey, "the public key in the token is not an uncompressed point on P-256")
        }
        return try ImagePublicKey(subjectPublicKeyInfo: p256Header + raw)
    }
}

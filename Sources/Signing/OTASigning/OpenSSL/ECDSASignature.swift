/// Converts ECDSA P-256 signatures.
package enum ECDSASignature {
    /// Converts a signature from the numbers r and s, 32 bytes each, big-endian (PKCS#11), to DER (RFC 3279, 2.2.3).
    ///
    /// Returns nil if `raw` does not have 64 bytes.
    package static func der(_ raw: [UInt8]) -> [UInt8]? {
        guard raw.count == 64 else { return nil }
        let body = integer(raw[..<32]) + integer(raw[32...])
        return [0x30, UInt8(body.count)] + body
    }

    /// Encodes a positive number as an INTEGER in DER, without leading zero bytes. If the first bit would be 1, the encoding begins with
    /// one zero byte, because a first bit of 1 means a negative number.
    private static func integer(_ number: ArraySlice<UInt8>) -> [UInt8] {
        var digits = Array(number.drop { $0 == 0 })
        if digits.isEmpty || digits[0] & 0x80 != 0 { digits.insert(0, at: 0) }
        return [0x02, UInt8(digits.count)] + digits
    }
}

extension ImagePublicKey {
    /// Returns whether `signature` is a valid ECDSA signature by this key over the SHA-256 of `message`. The result is false for a key of
    /// another algorithm.
    ///
    /// - Parameter signature: r and s, 32 bytes each, big-endian.
    func verify(ecdsa signature: [UInt8], of message: ArraySlice<UInt8>) -> Bool {
        guard algorithm == .ecdsaP256, let encoded = ECDSASignature.der(signature) else { return false }
        return verify(signature: encoded, ofDigestOf: message)
    }
}

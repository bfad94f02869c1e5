import COpenSSL

/// Computes SHA-256 with OpenSSL, which libnats already needs.
enum SHA256 {
    static let size = 32

    /// Returns the 32 bytes of the digest; nil if OpenSSL has no memory or no SHA-256.
    static func digest(_ bytes: [UInt8]) -> [UInt8]? {
        var (digest, count) = ([UInt8](repeating: 0, count: size), size)
        guard EVP_Q_digest(nil, "SHA256", nil, bytes, bytes.count, &digest, &count) == 1, count == size else {
            return nil
        }
        return digest
    }
}

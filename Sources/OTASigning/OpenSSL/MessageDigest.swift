internal import COpenSSL

/// The digest algorithms of MCUboot images other than SHA-256.
enum MessageDigest {
    case sha384, sha512

    /// Computes the digest of the whole message in one call.
    func digest(of message: ArraySlice<UInt8>) -> [UInt8] {
        let capacity = Int(EVP_MAX_MD_SIZE)
        return message.withUnsafeBytes { message in
            [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
                let answer = EVP_Q_digest(
                    nil, name, nil, message.baseAddress, message.count, buffer.baseAddress, &count)
                precondition(answer == 1, "libcrypto cannot do \(name): \(OpenSSLFailure.drain())")
            }
        }
    }

    private var name: String {
        switch self {
        case .sha384: "SHA384"
        case .sha512: "SHA512"
        }
    }
}

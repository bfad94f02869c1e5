internal import COpenSSL

/// The digests beside SHA-256 that imgtool puts into an image.
enum MessageDigest {
    case sha384, sha512

    /// Of the whole message at once.
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

internal import COpenSSL
public import OTAFirmware

/// Computes a SHA-256 digest incrementally.
///
/// If libcrypto does not provide SHA-256 or cannot allocate memory, the process ends with a fatal error. No caller could handle this case,
/// so these methods do not throw.
public final class SHA256: IncrementalHash {
    private let context: OpaquePointer

    public init() {
        guard let context = EVP_MD_CTX_new(), EVP_DigestInit_ex2(context, Algorithm.shared.pointer, nil) == 1 else {
            preconditionFailure("libcrypto cannot compute SHA-256: \(OpenSSLFailure.drain())")
        }
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    public func update(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { return }
        let answer = EVP_DigestUpdate(context, start, bytes.count)
        precondition(answer == 1, "SHA-256 updated after finish()")
    }

    /// Returns the digest of all bytes. Call this method once, after the last `update(_:)`.
    public func finish() -> SHA256Digest {
        let bytes = [UInt8](unsafeUninitializedCapacity: 32) { buffer, count in
            let answer = EVP_DigestFinal_ex(context, buffer.baseAddress, nil)
            precondition(answer == 1, "SHA-256 finished twice")
            count = 32
        }
        guard let digest = SHA256Digest(bytes: bytes) else { preconditionFailure("SHA-256 has 32 bytes") }
        return digest
    }

    public static func digest(of bytes: UnsafeRawBufferPointer) -> SHA256Digest {
        let hash = SHA256()
        hash.update(bytes)
        return hash.finish()
    }

    public static func digest(of bytes: [UInt8]) -> SHA256Digest { bytes.withUnsafeBytes { digest(of: $0) } }

    public static func digest(of bytes: ArraySlice<UInt8>) -> SHA256Digest { bytes.withUnsafeBytes { digest(of: $0) } }

    /// libcrypto's implementation of SHA-256. This process fetches the implementation only once, because the fetch takes longer than the
    /// computation of a manifest's digest.
    private struct Algorithm: @unchecked Sendable {
        let pointer: OpaquePointer?
        static let shared = Algorithm(pointer: EVP_MD_fetch(nil, "SHA256", nil))
    }
}

/// The digest algorithms SHA-384 and SHA-512 of MCUboot images. The whole message must be in memory. For SHA-256, use ``SHA256``.
enum MessageDigest {
    case sha384, sha512

    /// Returns the digest of `message`: 48 bytes for SHA-384, 64 bytes for SHA-512.
    func digest(of message: ArraySlice<UInt8>) -> [UInt8] {
        let capacity = Int(EVP_MAX_MD_SIZE)
        return message.withUnsafeBytes { message in
            [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
                let answer = EVP_Q_digest(
                    nil, name, nil, message.baseAddress, message.count, buffer.baseAddress, &count)
                precondition(answer == 1, "libcrypto cannot compute \(name): \(OpenSSLFailure.drain())")
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

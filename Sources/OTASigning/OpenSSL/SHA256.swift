internal import COpenSSL
public import OTAFirmware

/// SHA-256, fed piece by piece.
///
/// A libcrypto that cannot do SHA-256 or has no memory for 100 bytes is the only way in which this could fail; it stops
/// the process, as no caller could do better.
public final class SHA256: IncrementalHash {
    private let context: OpaquePointer

    public init() {
        guard let context = EVP_MD_CTX_new(), EVP_DigestInit_ex2(context, Algorithm.shared.pointer, nil) == 1 else {
            preconditionFailure("libcrypto cannot do SHA-256: \(OpenSSLFailure.drain())")
        }
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    public func update(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { return }
        let answer = EVP_DigestUpdate(context, start, bytes.count)
        precondition(answer == 1, "SHA-256 fed after its end")
    }

    /// Called once, last.
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

    /// Fetched once: a fetch costs more than the hash of a manifest.
    private struct Algorithm: @unchecked Sendable {
        let pointer: OpaquePointer?
        static let shared = Algorithm(pointer: EVP_MD_fetch(nil, "SHA256", nil))
    }
}

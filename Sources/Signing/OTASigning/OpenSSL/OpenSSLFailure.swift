internal import COpenSSL

/// The errors from libcrypto's error queue. Each thread has its own queue.
///
/// The errors of a failed call stay in the queue until `drain()` removes them. Call `drain()` after each failed call. Without this call,
/// the errors would appear as errors of a later call. Call `drain()` before any `await`, because after the `await` the Swift task may
/// continue on another thread, which has another queue.
struct OpenSSLFailure: Error {
    struct Entry: Hashable {
        var library: Int32
        var reason: Int32
    }
    /// The errors in the order of the queue. The first error is the original cause of the failure.
    var entries: [Entry] = []

    /// Removes all errors from the queue and returns them.
    static func drain() -> OpenSSLFailure {
        var failure = OpenSSLFailure()
        while true {
            let code = ERR_get_error()
            if code == 0 { return failure }
            failure.entries.append(Entry(library: ERR_GET_LIB(code), reason: ERR_GET_REASON(code)))
        }
    }

    func holds(library: Int32, anyOf reasons: Int32...) -> Bool {
        entries.contains { $0.library == library && reasons.contains($0.reason) }
    }
}

extension OpenSSLFailure: CustomStringConvertible {
    /// The library number and the reason number of each error. Messages contain the numbers instead of libcrypto's texts, because the texts
    /// change between releases of libcrypto.
    var description: String {
        if entries.isEmpty { return "libcrypto reported no cause" }
        return "libcrypto " + entries.map { "\($0.library)/\($0.reason)" }.joined(separator: " ")
    }
}

/// Returns `pointer`, the result of a libcrypto call. If `pointer` is nil, the call failed, and this function throws the errors in
/// libcrypto's error queue.
func opened(_ pointer: OpaquePointer?) throws(OpenSSLFailure) -> OpaquePointer {
    guard let pointer else { throw OpenSSLFailure.drain() }
    return pointer
}

/// Checks `answer`, the result of a libcrypto call. 1 means success. For every other value, this function throws the errors in libcrypto's
/// error queue.
func succeeded(_ answer: Int32) throws(OpenSSLFailure) {
    guard answer == 1 else { throw OpenSSLFailure.drain() }
}

/// Information about the libcrypto library that this process uses.
package enum Libcrypto {
    /// The version of libcrypto, for example `3.0.17`.
    package static var version: String {
        "\(OPENSSL_version_major()).\(OPENSSL_version_minor()).\(OPENSSL_version_patch())"
    }
}

/// The state that libcrypto has in this process.
package enum OpenSSLState {
    /// Keeps the state until the end of the process. Call this function before any other use of libcrypto.
    ///
    /// By default, libcrypto releases its state in `exit`. Other threads still run at that time, and a thread that then uses libcrypto, for
    /// example to verify a signature, ends the process with SIGSEGV.
    package static func keepAtExit() { OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) }
}

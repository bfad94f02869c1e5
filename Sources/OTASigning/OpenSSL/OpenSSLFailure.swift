internal import COpenSSL

/// The errors that libcrypto put into the error queue of this thread. Only this type empties the queue.
///
/// Each thread has one queue, and entries stay in it after the failed call. So the code empties it after every call that can
/// fail, and before any `await`.
struct OpenSSLFailure: Error {
    struct Entry: Hashable {
        var library: Int32
        var reason: Int32
    }
    /// The errors from the queue, innermost cause first.
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
    /// The library and reason number of each error. libcrypto's texts change between releases, its numbers do not.
    var description: String {
        if entries.isEmpty { return "libcrypto reported no cause" }
        return "libcrypto " + entries.map { "\($0.library)/\($0.reason)" }.joined(separator: " ")
    }
}

/// Returns `pointer`, or throws the errors in the queue if it is nil.
func opened(_ pointer: OpaquePointer?) throws(OpenSSLFailure) -> OpaquePointer {
    guard let pointer else { throw OpenSSLFailure.drain() }
    return pointer
}

/// Throws unless libcrypto returned 1. Many of its functions report a failure with 0 or with a negative number.
func succeeded(_ answer: Int32) throws(OpenSSLFailure) {
    guard answer == 1 else { throw OpenSSLFailure.drain() }
}

/// Describes the loaded libcrypto.
package enum Libcrypto {
    /// The version, for example `3.0.17`.
    package static var version: String {
        "\(OPENSSL_version_major()).\(OPENSSL_version_minor()).\(OPENSSL_version_patch())"
    }
}

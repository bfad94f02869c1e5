internal import COpenSSL

/// What libcrypto left in the error queue of this thread: the one place where the queue is drained.
///
/// The queue belongs to a thread and outlives the call that filled it, so it is drained after every call that can fail,
/// before anything is awaited.
struct OpenSSLFailure: Error {
    struct Entry: Hashable {
        var library: Int32
        var reason: Int32
    }
    /// Innermost cause first.
    var entries: [Entry] = []

    /// Empties the queue.
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
    /// Numbers, as the texts change from release to release.
    var description: String {
        if entries.isEmpty { return "libcrypto tells no cause" }
        return "libcrypto " + entries.map { "\($0.library)/\($0.reason)" }.joined(separator: " ")
    }
}

/// `pointer`, or what the queue tells of why there is none.
func opened(_ pointer: OpaquePointer?) throws(OpenSSLFailure) -> OpaquePointer {
    guard let pointer else { throw OpenSSLFailure.drain() }
    return pointer
}

/// Throws unless libcrypto answered 1: many of its calls tell of failures by 0 and by negative numbers.
func succeeded(_ answer: Int32) throws(OpenSSLFailure) {
    guard answer == 1 else { throw OpenSSLFailure.drain() }
}

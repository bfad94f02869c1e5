import Glibc

/// Why a descriptor could not be read, written or waited for.
package enum DescriptorError: Error, Sendable, Equatable {
    /// The task that waited was cancelled.
    case cancelled
    /// It was closed on this side.
    case closed
    /// What was tried, and errno.
    case system(String, CInt)

    /// What an errno says.
    package static func text(of error: CInt) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            guard let base = buffer.baseAddress, strerror_r(error, base, buffer.count) == 0 else {
                return "error \(error)"
            }
            return String(cString: base)
        }
    }
}

extension DescriptorError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .cancelled: "the task was cancelled"
        case .closed: "it is closed"
        case .system(let what, let error): "\(what): \(Self.text(of: error))"
        }
    }
}

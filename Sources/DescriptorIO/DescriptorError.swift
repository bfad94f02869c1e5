import Glibc

/// An error of a read, a write or a wait on a descriptor.
package enum DescriptorError: Error, Sendable, Equatable {
    /// The waiting task was cancelled.
    case cancelled
    /// This process closed the descriptor, or the peer ended the data.
    case closed
    /// A system call failed: the failed action for messages, and errno.
    case system(String, CInt)

    /// Returns the system's text for an errno.
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

import Glibc

/// Reads and writes a datagram socket or a terminal. All calls run on the thread of a loop, and do not block this thread.
///
/// The descriptor is closed when the last reference to this object is released.
package actor OpenDescriptor {
    package nonisolated let thread: LoopThread
    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }

    private let descriptor: LoopDescriptor
    private var scratch = [UInt8](repeating: 0, count: 1 << 16)

    /// Takes ownership of the descriptor. The descriptor is closed if the initializer throws.
    ///
    /// - Parameter release: releases resources of the descriptor, such as a lock. `release` runs immediately before the
    ///   descriptor is closed.
    /// - Throws: `system` if a system call fails.
    package init(
        adopting descriptor: CInt, on thread: LoopThread, release: @escaping @Sendable (CInt) -> Void = { _ in }
    ) throws(DescriptorError) {
        self.descriptor = try LoopDescriptor(adopting: descriptor, on: thread.loop, release: release)
        self.thread = thread
    }

    /// Closes the descriptor. Pending reads and writes throw `closed`. A second call of `close` has no effect.
    package func close() { descriptor.close() }

    /// Writes all bytes, and waits while the system's buffer is full. On a datagram socket, the bytes become one datagram.
    ///
    /// Only one task may write at a time. If two tasks wrote at the same time, their bytes would be mixed.
    package func write(_ bytes: [UInt8]) async throws(DescriptorError) {
        var written = 0
        repeat {
            written += try await descriptor.retry("write failed", waitingFor: POLLOUT) { descriptor in
                bytes.withUnsafeBytes {
                    Glibc.write(descriptor, $0.baseAddress.map { $0 + written }, $0.count - written)
                }
            }
        } while written < bytes.count
    }

    /// Waits for data and returns one datagram, or at most 64 KiB from a terminal. An empty result means an empty datagram or the end of
    /// the data.
    package func read() async throws(DescriptorError) -> [UInt8] {
        let count = try await descriptor.retry("read failed", waitingFor: POLLIN) {
            Glibc.read($0, &scratch, scratch.count)
        }
        return Array(scratch[..<count])
    }
}

/// Owns a non-blocking descriptor and waits for its events on a loop. The descriptor is closed when this object is released.
///
/// Only an actor on the loop's thread may use this object. This actor must hold a reference to the ``LoopThread``, because the
/// loop's thread ends when the last reference to the `LoopThread` is released.
package final class LoopDescriptor {
    private let loop: EventLoop
    /// The descriptor; -1 after `close()`.
    private var descriptor: CInt
    private let release: @Sendable (CInt) -> Void

    /// Takes ownership of the descriptor and makes the descriptor non-blocking. The descriptor is closed if the initializer
    /// throws.
    ///
    /// - Parameter release: releases resources of the descriptor, such as a lock. `release` runs immediately before the descriptor is
    ///   closed. Use `release` to unlock a lock of flock(2). A child process has copies of all descriptors until it calls exec. So
    ///   without the explicit unlock, a child process could keep the lock after this program has closed the descriptor.
    /// - Throws: `system` if a system call fails.
    package init(
        adopting descriptor: CInt, on loop: EventLoop, release: @escaping @Sendable (CInt) -> Void = { _ in }
    ) throws(DescriptorError) {
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 else {
            let reason = errno
            release(descriptor)
            _ = Glibc.close(descriptor)
            throw .system("cannot set non-blocking mode", reason)
        }
        self.descriptor = descriptor
        self.loop = loop
        self.release = release
    }

    deinit { close(descriptor) }

    /// Closes the descriptor. Pending operations throw `closed`. A second call of `close` has no effect.
    package func close() {
        loop.endWaits(on: descriptor)
        close(descriptor)
        descriptor = -1
    }

    private func close(_ descriptor: CInt) {
        guard descriptor >= 0 else { return }
        release(descriptor)
        _ = Glibc.close(descriptor)
    }

    /// The open descriptor.
    ///
    /// - Throws: `closed` after `close()`.
    package var value: CInt {
        get throws(DescriptorError) {
            guard descriptor >= 0 else { throw .closed }
            return descriptor
        }
    }

    /// Calls `body`, which makes a system call, and returns the result of the system call. Returns nil if the system call would block,
    /// or if a signal has interrupted it.
    ///
    /// - Parameters:
    ///   - what: the text for an error message, such as `read failed`.
    ///   - body: makes a system call and returns the result of the call. If the result is negative, errno contains the error.
    /// - Throws: `closed` after `close()`, `system` if the system call fails.
    package func attempt(_ what: String, _ body: (CInt) -> Int) throws(DescriptorError) -> Int? {
        let count = body(try value)
        if count >= 0 { return count }
        let reason = errno
        guard reason == EAGAIN || reason == EINTR else { throw .system(what, reason) }
        return nil
    }

    /// Calls `attempt` until `attempt` returns a result. Waits for `events` before each repetition.
    ///
    /// - Parameters:
    ///   - what: the text for an error message, such as `read failed`.
    ///   - events: the flags of poll(2) to wait for.
    ///   - body: makes a system call and returns the result of the call. If the result is negative, errno contains the error.
    /// - Throws: `closed` after `close()`, `cancelled` if the task is cancelled, `system` if a system call fails.
    package func retry(
        _ what: String, waitingFor events: CInt, isolation: isolated (any Actor) = #isolation, _ body: (CInt) -> Int
    ) async throws(DescriptorError) -> Int {
        while true {
            if let count = try attempt(what, body) { return count }
            try await loop.wait(for: events, on: descriptor)
        }
    }
}

/// An error of an operation on a descriptor, or of the start of an event loop.
package enum DescriptorError: Error, Sendable, Equatable {
    /// The waiting task was cancelled.
    case cancelled
    /// This process closed the descriptor, or there is no more data from the peer.
    case closed
    /// A system call failed. The values are the start of the error message, such as `read failed`, and errno.
    case system(String, CInt)

    /// Returns the system's message for a value of errno.
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
        case .closed: "the descriptor is closed"
        case .system(let what, let error): "\(what): \(Self.text(of: error))"
        }
    }
}

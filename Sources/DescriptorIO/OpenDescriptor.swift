import Glibc

/// Reads and writes a descriptor without blocking, on a loop's thread. The descriptor is a datagram socket or a terminal. It is closed
/// when the last reference is released.
package actor OpenDescriptor {
    package nonisolated let thread: LoopThread
    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }

    /// The descriptor; -1 after `close()`.
    private var descriptor: CInt
    private var scratch = [UInt8](repeating: 0, count: 1 << 16)
    private let release: @Sendable (CInt) -> Void

    /// Takes ownership of the descriptor, even if the initializer throws.
    ///
    /// - Parameter release: releases resources of the descriptor, such as a lock. It is called just before the close. Without it, a lock
    ///   lasts until all copies of the descriptor are closed, and a child process has a copy until it calls exec.
    package init(
        adopting descriptor: CInt, on thread: LoopThread, release: @escaping @Sendable (CInt) -> Void = { _ in }
    ) throws(DescriptorError) {
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 else {
            let reason = errno
            release(descriptor)
            _ = Glibc.close(descriptor)
            throw .system("it cannot be read without blocking", reason)
        }
        self.descriptor = descriptor
        self.thread = thread
        self.release = release
    }

    deinit {
        guard descriptor >= 0 else { return }
        release(descriptor)
        _ = Glibc.close(descriptor)
    }

    /// Closes the descriptor. Pending reads and writes throw `closed`. Further calls have no effect.
    package func close() {
        guard descriptor >= 0 else { return }
        thread.loop.endWaits(on: descriptor)
        release(descriptor)
        _ = Glibc.close(descriptor)
        descriptor = -1
    }

    /// Writes all bytes, and waits while the system's buffer is full. A datagram is sent whole. Only one caller may write at a time;
    /// otherwise the bytes of two callers are mixed.
    package func write(_ bytes: [UInt8]) async throws(DescriptorError) {
        var written = 0
        repeat {
            guard descriptor >= 0 else { throw .closed }
            let count = bytes.withUnsafeBytes {
                Glibc.write(descriptor, $0.baseAddress.map { $0 + written }, $0.count - written)
            }
            if count >= 0 {
                written += count
            } else {
                try await waitForReadiness("writing failed", errno, waitingFor: POLLOUT)
            }
        } while written < bytes.count
    }

    /// Waits for data and returns it: one datagram, or at most 64 KiB. An empty result means an empty datagram or the end of the data.
    package func read() async throws(DescriptorError) -> [UInt8] {
        while true {
            guard descriptor >= 0 else { throw .closed }
            let count = Glibc.read(descriptor, &scratch, scratch.count)
            if count >= 0 { return Array(scratch[..<count]) }
            try await waitForReadiness("reading failed", errno, waitingFor: POLLIN)
        }
    }

    /// Returns when the failed call can be retried.
    ///
    /// - Throws: `system` for an errno other than EINTR and EAGAIN.
    private func waitForReadiness(_ what: String, _ reason: CInt, waitingFor events: CInt) async throws(DescriptorError)
    {
        switch reason {
        case EINTR: return
        case EAGAIN: try await thread.loop.wait(for: events, on: descriptor)
        default: throw .system(what, reason)
        }
    }
}

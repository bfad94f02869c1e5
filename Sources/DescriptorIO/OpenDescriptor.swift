import Glibc

/// A descriptor that is read and written without blocking, on a loop's thread: a socket that keeps datagrams apart, or a
/// terminal. Closed when the last reference goes.
package actor OpenDescriptor {
    package nonisolated let thread: LoopThread
    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }

    /// -1 once closed.
    private var descriptor: CInt
    private var scratch = [UInt8](repeating: 0, count: 1 << 16)
    private let release: @Sendable (CInt) -> Void

    /// Takes the descriptor over, also when it throws.
    ///
    /// - Parameter release: gives back what was taken with it, such as a lock, just before it is closed. By closing alone that would last
    ///   as long as any copy does, and each process that this one starts has one until it executes its program.
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

    /// What is written or awaited meanwhile throws `closed`. May be called more than once.
    package func close() {
        guard descriptor >= 0 else { return }
        thread.loop.endWaits(on: descriptor)
        release(descriptor)
        _ = Glibc.close(descriptor)
        descriptor = -1
    }

    /// Writes all of it, waiting while there is no room; a datagram goes whole. One caller at a time, or the bytes of two mingle.
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

    /// Waits until something is there, and takes it: one datagram, or at most 64 KiB. Empty: an empty datagram, or the end.
    package func read() async throws(DescriptorError) -> [UInt8] {
        while true {
            guard descriptor >= 0 else { throw .closed }
            let count = Glibc.read(descriptor, &scratch, scratch.count)
            if count >= 0 { return Array(scratch[..<count]) }
            try await waitForReadiness("reading failed", errno, waitingFor: POLLIN)
        }
    }

    /// Returns when the same can be tried again.
    private func waitForReadiness(_ what: String, _ reason: CInt, waitingFor events: CInt) async throws(DescriptorError)
    {
        switch reason {
        case EINTR: return
        case EAGAIN: try await thread.loop.wait(for: events, on: descriptor)
        default: throw .system(what, reason)
        }
    }
}

import DescriptorIO
import Glibc
import Synchronization

/// Handles SIGINT and SIGTERM while a session runs. The first signal stops the session. The second signal ends the process immediately.
///
/// A separate thread stops the session. A Swift task cannot replace this thread, because a blocked write to a terminal or a pipe can block
/// all threads that run tasks. At the second signal, the signal handler itself ends the process.
package enum Interrupts {
    private static let first = Atomic<Int32>(0)
    private static let onFirst = Guarded<(@Sendable () -> Void)?>(nil)
    private nonisolated(unsafe) static let heard = {
        let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
        sem_init(semaphore, 0, 0)
        return semaphore
    }()
    /// The thread that waits for the first signal. The first use of this property starts the thread.
    private static let listener: Void = {
        var thread = pthread_t()
        let status = pthread_create(
            &thread, nil,
            { _ in
                while true {
                    while sem_wait(heard) != 0 {}
                    onFirst.with { $0 }?()
                }
            }, nil)
        precondition(status == 0, "cannot start the thread for signals: \(status)")
        pthread_detach(thread)
    }()

    /// The first received signal; nil if no signal was received.
    package static var signal: Int32? {
        let signal = first.load(ordering: .relaxed)
        return signal == 0 ? nil : signal
    }

    /// The exit status after the first signal; nil if no signal was received.
    static var exitStatus: ExitStatus? { signal.map { $0 == SIGTERM ? .terminated : .interrupted } }

    /// Runs `body`. At the first signal, `body` must return. Only one call at a time is allowed.
    ///
    /// - Parameters:
    ///   - onFirst: a function that reports the first signal. It may block.
    ///   - body: the function to run. Its argument is a stream that contains one element after the first signal.
    package static func during<Result: Sendable>(
        onFirst report: @escaping @Sendable () -> Void, body: (AsyncStream<Void>) async throws -> Result
    ) async rethrows -> Result {
        let (stops, stop) = AsyncStream.makeStream(of: Void.self)
        onFirst.with {
            $0 = {
                stop.yield()
                report()
            }
        }
        _ = listener
        let before = [SIGINT, SIGTERM].map { ($0, Glibc.signal($0, handle)) }
        // After the first signal, the handler remains installed, so that the next signal ends the process.
        defer { if signal == nil { for (signal, handler) in before { Glibc.signal(signal, handler) } } }
        return try await body(stops)
    }

    /// The signal handler, which uses only async-signal-safe functions.
    private static let handle: @convention(c) (Int32) -> Void = { signal in
        guard first.compareExchange(expected: 0, desired: signal, ordering: .relaxed).exchanged else {
            _exit(128 + signal)
        }
        sem_post(heard)
    }

    /// Runs `body` with SIGINT, SIGTERM and SIGHUP blocked in this thread, so that a signal does not leave incomplete files.
    static func deferringSignals<Result>(_ body: () throws -> Result) rethrows -> Result {
        var signals = sigset_t()
        var before = sigset_t()
        sigemptyset(&signals)
        for signal in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&signals, signal) }
        pthread_sigmask(SIG_BLOCK, &signals, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        return try body()
    }
}

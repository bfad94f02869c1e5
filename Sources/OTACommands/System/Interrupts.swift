import DescriptorIO
import Glibc
import Synchronization

/// SIGINT and SIGTERM while a session runs: the first one asks it to stop, the second one ends the process at once.
///
/// The signal handler ends the process, and a thread of its own passes the first signal on: a blocked write to a terminal or a pipe
/// can hold up every thread that runs tasks.
enum Interrupts {
    private static let first = Atomic<Int32>(0)
    private static let onFirst = Guarded<(@Sendable () -> Void)?>(nil)
    private nonisolated(unsafe) static let heard = {
        let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
        sem_init(semaphore, 0, 0)
        return semaphore
    }()
    /// Started at its first use.
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
        precondition(status == 0, "no thread to listen for signals: \(status)")
        pthread_detach(thread)
    }()

    /// The first signal that was received; nil: none.
    static var signal: Int32? {
        let signal = first.load(ordering: .relaxed)
        return signal == 0 ? nil : signal
    }

    /// Runs `body` with one element for the signal that is to stop it. One at a time.
    ///
    /// - Parameter onFirst: reports the first signal. It may block.
    static func during<Result: Sendable>(
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
        // After a first signal the next one still ends the process.
        defer { if signal == nil { for (signal, handler) in before { Glibc.signal(signal, handler) } } }
        return try await body(stops)
    }

    /// Does only what a signal handler may do.
    private static let handle: @convention(c) (Int32) -> Void = { signal in
        guard first.compareExchange(expected: 0, desired: signal, ordering: .relaxed).exchanged else {
            _exit(128 + signal)
        }
        sem_post(heard)
    }

    /// Runs `body`, which makes what must not be left half made, before a signal is heard.
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

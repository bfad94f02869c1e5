import Glibc
import Synchronization
import UnixSignals

/// SIGINT and SIGTERM while a session runs: the first one asks it to stop, the second one ends the process at once.
final class Interrupts: Sendable {
    private let first = Atomic<Int32>(0)

    /// The signal that came; nil: none.
    var signal: Int32? {
        let signal = first.load(ordering: .relaxed)
        return signal == 0 ? nil : signal
    }

    /// Runs `body` with one element for the signal that is to stop it.
    ///
    /// - Parameter onFirst: tells that the first signal has been heard.
    func during<Result: Sendable>(
        onFirst: @escaping @Sendable () -> Void, body: (AsyncStream<Void>) async throws -> Result
    ) async rethrows -> Result {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let (stops, stop) = AsyncStream.makeStream(of: Void.self)
        let listener = Task {
            for await signal in signals {
                if self.signal != nil { _exit(128 + signal.rawValue) }
                self.first.store(signal.rawValue, ordering: .relaxed)
                onFirst()
                stop.yield()
            }
        }
        defer { listener.cancel() }
        return try await body(stops)
    }

    /// Runs `body`, which makes what must not be left half made, before a signal is heard.
    static func heldBack<Result>(_ body: () throws -> Result) rethrows -> Result {
        var signals = sigset_t()
        var before = sigset_t()
        sigemptyset(&signals)
        for signal in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&signals, signal) }
        pthread_sigmask(SIG_BLOCK, &signals, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        return try body()
    }
}

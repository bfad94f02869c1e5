import DescriptorIO
import NATS
import OTANATSStore
package import OTAStore

/// Watches whether the store still accepts the user of a command that runs until a signal. If the store does not, the command must stop:
/// only a person can change the users of a server, so the command would otherwise print warnings for ever and do nothing.
///
/// There are three cases. libnats ends the connection for good after the server has refused the credentials twice, for example because the
/// user was removed. Or the server refuses single operations, because the permissions of the user were changed. An operator can correct
/// this while the command runs, so the command stops only after 5 minutes. Or the server refuses the first presence of a gateway: its
/// name is not the name of its user, or the user is an operator or a controller. Then the history would have none of its events, so the
/// command stops at once.
package final class StoreAccess: Sendable {
    private struct State {
        /// The first and the last refusal of each kind of operation that has not succeeded since then.
        var refusals: [String: (first: ContinuousClock.Instant, last: ContinuousClock.Instant)] = [:]
        /// Whether the server has permitted a write of the gateway's own record.
        var hasPresence = false
        var end: StoreError?
    }

    /// The command stops if all operations of one kind were refused for this time.
    private let patience: Duration
    /// Two refusals with a longer pause between them do not belong together. A gateway repeats a refused write after 60 s.
    private static let longestPause = Duration.seconds(120)

    private let state = Guarded(State())
    private let ends: AsyncStream<Void>
    private let feed: AsyncStream<Void>.Continuation

    package init(patience: Duration = .seconds(300)) {
        self.patience = patience
        (ends, feed) = AsyncStream.makeStream(of: Void.self)
    }

    /// The error that ends the command; nil if the command may continue.
    package var end: StoreError? { state.with(\.end) }

    /// Records the result of an operation.
    ///
    /// - Parameters:
    ///   - operation: the kind of the operation, such as `write devices`.
    ///   - error: the error; nil if the operation was successful.
    package func answered(_ operation: String, _ error: StoreError?, at now: ContinuousClock.Instant = .now) {
        let ending: StoreError? = state.with { state in
            guard let error, error.code == .accessRefused else {
                if error == nil { state.refusals[operation] = nil }
                return nil
            }
            let known = state.refusals[operation].flatMap { $0.last.duration(to: now) > Self.longestPause ? nil : $0 }
            let first = known?.first ?? now
            state.refusals[operation] = (first, now)
            return first.duration(to: now) >= patience ? error : nil
        }
        guard let ending else { return }
        stop(
            StoreError(
                .accessRefused, "the server has refused '\(operation)' for 5 minutes: \(ending.context)",
                hint: "correct the permissions of this user in the server's configuration, and start the command again",
                cause: ending.cause))
    }

    /// Records the result of a write of a gateway's own record. If the server refuses the first one, the command stops.
    ///
    /// - Parameter error: the error; nil if the server permitted the write.
    package func wrotePresence(of gateway: RecordName, _ error: StoreError?) {
        let isFirst = state.with { state in
            if error == nil { state.hasPresence = true }
            return !state.hasPresence
        }
        guard let error, error.code == .accessRefused, isFirst else { return }
        stop(
            StoreError(
                .accessRefused, "the user of the server may not write as the gateway '\(gateway)': \(error.context)",
                hint:
                    "give the credentials of this gateway: --credentials gateway-\(gateway).nk; or the name that belongs to the "
                    + "credentials: --name NAME; for a new gateway, first write the configuration with the names of all gateways: otaflash fleet "
                    + "init --config nats.conf --gateway NAME --gateway \(gateway) --force",
                cause: error.cause))
    }

    /// Waits until the connection has ended for good. If the connection was not closed by this program, the command must stop.
    func watch(_ client: NATSClient) async {
        for await state in client.states() {
            guard case .closed(let error) = state, !Task.isCancelled else { continue }
            stop(
                StoreError(
                    StoreError(error).code,
                    "the NATS server does not accept this user any more: \(error.message)",
                    hint: "check the user of --credentials in the server's configuration, and start the command again",
                    cause: error.cause))
        }
    }

    private func stop(_ error: StoreError) {
        state.with { $0.end = $0.end ?? error }
        feed.yield()
    }

    /// Runs `body` with a stream that has an element after a signal, or when the command must stop.
    ///
    /// - Parameters:
    ///   - signals: the stream of the signals.
    ///   - report: called before `body` is stopped because of an error.
    /// - Throws: the error of `body`, or the error of the store that stopped the command.
    func stopping<Result: Sendable>(
        _ signals: AsyncStream<Void>, report: @escaping @Sendable (StoreError) -> Void,
        _ body: (AsyncStream<Void>) async throws -> Result
    ) async throws -> Result {
        let (stops, stop) = AsyncStream.makeStream(of: Void.self)
        let result = try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in signals { stop.yield() } }
            group.addTask { [self] in
                for await _ in ends {
                    if let end { report(end) }
                    stop.yield()
                }
            }
            let result = try await body(stops)
            group.cancelAll()
            return result
        }
        if let end { throw end }
        return result
    }
}

import DescriptorIO

/// The state of a connection to NATS servers.
public enum NATSConnectionState: Sendable, Equatable {
    case connected
    /// The connection is interrupted, and the library tries to restore it.
    case reconnecting
    /// The connection ended for good, for example because the server refused the credentials twice.
    case closed(NATSError)
}

/// The current state of a connection, and the streams that report each new state.
final class StateFeed: Sendable {
    private struct Feed {
        var state = NATSConnectionState.connected
        var listeners: [UInt64: AsyncStream<NATSConnectionState>.Continuation] = [:]
        var last: UInt64 = 0
    }

    private let feed = Guarded(Feed())

    var current: NATSConnectionState { feed.with(\.state) }

    /// Changes the state. A closed connection stays closed.
    func change(to state: NATSConnectionState) {
        let listeners: [AsyncStream<NATSConnectionState>.Continuation] = feed.with { feed in
            if case .closed = feed.state { return [] }
            feed.state = state
            return Array(feed.listeners.values)
        }
        for listener in listeners {
            listener.yield(state)
            if case .closed = state { listener.finish() }
        }
    }

    /// Returns a stream of the current state and all later states. The stream ends after `closed`.
    func states() -> AsyncStream<NATSConnectionState> {
        let (stream, listener) = AsyncStream.makeStream(of: NATSConnectionState.self)
        let (number, state) = feed.with { feed in
            feed.last += 1
            feed.listeners[feed.last] = listener
            return (feed.last, feed.state)
        }
        listener.onTermination = { [weak self] _ in self?.feed.with { $0.listeners[number] = nil } }
        listener.yield(state)
        if case .closed = state { listener.finish() }
        return stream
    }
}

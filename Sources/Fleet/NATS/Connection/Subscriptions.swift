import DescriptorIO

/// An event of a subscription.
enum SubscriptionEvent: Sendable {
    case message(NATSMessage)
    /// The connection was interrupted and is connected again. Messages may be missing.
    case reconnected
    /// The time ``KeyValueWatch/heartbeat`` has passed again. Only ``KeyValueWatch`` uses this event, to detect that no messages of its
    /// consumer arrive any more.
    case tick
    /// The subscription has ended with this error. No later event follows.
    case failed(NATSError)
}

/// The open subscriptions of a connection, except the subscription for replies.
final class Subscriptions: Sendable {
    typealias Feed = AsyncStream<SubscriptionEvent>.Continuation
    private typealias Entry = (subject: String, feed: Feed)

    private let entries = Guarded([UInt: Entry]())

    func add(_ number: UInt, _ subject: String, _ feed: Feed) { entries.with { $0[number] = (subject, feed) } }

    func remove(_ number: UInt) { entries.with { $0[number] = nil } }

    /// Passes an event of libnats to a subscription.
    func post(_ event: LibraryEvent, to feed: Feed) {
        switch event {
        case .message(let message):
            if case .dropped = feed.yield(.message(message)) {
                Self.fail(
                    feed, NATSError(.slowReader, "messages of \(message.subject) arrive faster than they are read"))
            }
        case .malformedMessage: Self.fail(feed, .malformed("header"))
        case .disconnected, .reconnected, .closed, .failed: break
        }
    }

    func reconnected() {
        for entry in entries.with({ Array($0.values) }) { entry.feed.yield(.reconnected) }
    }

    func tick(_ subject: String) {
        for entry in entries.with({ $0.values.filter { $0.subject == subject } }) { entry.feed.yield(.tick) }
    }

    /// Ends all subscriptions to `subject`. If `subject` is nil, ends all subscriptions.
    func endAll(to subject: String? = nil, _ error: NATSError) {
        let ended = entries.with { $0.values.filter { subject == nil || $0.subject == subject } }
        for entry in ended { Self.fail(entry.feed, error) }
    }

    private static func fail(_ feed: Feed, _ error: NATSError) {
        feed.yield(.failed(error))
        feed.finish()
    }
}

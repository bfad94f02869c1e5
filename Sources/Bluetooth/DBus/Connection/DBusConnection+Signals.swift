extension DBusConnection {
    /// Returns a stream of the signals that match `match`. Throws the errors of `call`.
    public func signals(matching match: DBusMatch) async throws(DBusError) -> DBusStream<DBusSignal> {
        try await stream(matching: match) { $0 }
    }

    /// Returns a stream of converted signals. If `convert` returns nil, the stream skips the signal.
    func stream<Element: Sendable>(
        matching match: DBusMatch, _ convert: @escaping @Sendable (DBusSignal) -> Element?
    ) async throws(DBusError) -> DBusStream<Element> {
        let (stream, feed) = makeStream(of: Element.self)
        let ticket = try await subscribe(match) { signal in
            if let element = convert(signal) { feed.yield(.success(element)) }
        } end: {
            feed.fail($0)
        }
        feed.onTermination = { [weak self] _ in self?.post { $0.unsubscribe(ticket) } }
        return stream
    }

    func makeStream<Element: Sendable>(
        of: Element.Type
    ) -> (DBusStream<Element>, DBusStream<Element>.Elements.Continuation) {
        let (elements, feed) = DBusStream<Element>.Elements.makeStream()
        return (DBusStream(elements: elements, connection: self), feed)
    }

    /// Subscribes to signals and returns the identifier for `unsubscribe`.
    ///
    /// `deliver` runs on this actor for each matching signal, in the order in which the messages arrive. `deliver` can run before
    /// `subscribe` returns. `end` runs when the connection ends.
    func subscribe(
        _ match: DBusMatch, deliver: @escaping (DBusSignal) -> Void, end: @escaping (DBusError) -> Void
    ) async throws(DBusError) -> UInt64 {
        let rule = try match.rule()
        if let sender = match.wellKnownSender { try await track(sender) }
        let ticket = newTicket()
        subscriptions.add(ticket, .init(match: match, deliver: deliver, end: end))
        do throws(DBusError) { try await request(.bus("AddMatch", [.string(rule)])) } catch {
            unsubscribe(ticket)
            throw error
        }
        return ticket
    }

    func unsubscribe(_ ticket: UInt64) {
        guard let rule = try? subscriptions.remove(ticket)?.match.rule() else { return }
        // Ignore errors. If the connection has ended, `send` fails, but the bus has already removed the rule. The bus refuses
        // `RemoveMatch` only if the bus has no such rule.
        try? send(withoutReply: .bus("RemoveMatch", [.string(rule)]))
    }
}

/// The subscriptions to signals, in the order of their creation.
struct Subscriptions {
    struct Subscription {
        var match: DBusMatch
        var deliver: (DBusSignal) -> Void
        /// When the connection ends, it calls `end` with the reason.
        var end: (DBusError) -> Void
    }

    private var all: [(ticket: UInt64, subscription: Subscription)] = []

    mutating func add(_ ticket: UInt64, _ subscription: Subscription) { all.append((ticket, subscription)) }

    mutating func remove(_ ticket: UInt64) -> Subscription? {
        guard let index = all.firstIndex(where: { $0.ticket == ticket }) else { return nil }
        return all.remove(at: index).subscription
    }

    func deliver(_ signal: DBusSignal, ownerOf: (String) -> String?) {
        for (_, subscription) in all where subscription.match.fits(signal, ownerOf: ownerOf) {
            subscription.deliver(signal)
        }
    }

    mutating func endAll(_ error: DBusError) {
        let ended = all
        all = []
        for (_, subscription) in ended { subscription.end(error) }
    }
}

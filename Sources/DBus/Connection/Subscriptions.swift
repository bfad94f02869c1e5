/// The subscriptions to signals, in the order in which they were added.
struct Subscriptions {
    struct Subscription {
        var match: DBusMatch
        var deliver: (DBusSignal) -> Void
        /// Called when the connection has ended.
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

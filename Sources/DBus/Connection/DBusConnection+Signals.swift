extension DBusConnection {
    /// Subscribes to the signals that match `match`. Throws the errors of `call`.
    public func signals(matching match: DBusMatch) async throws(DBusError) -> DBusStream<DBusSignal> {
        try await stream(matching: match) { $0 }
    }

    /// Subscribes to signals and converts them. Signals for which `convert` returns nil are skipped.
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

    /// Returns the owner of `name`: its unique name or nil, now and after each change. Throws the errors of `call`.
    public func owners(of name: String) async throws(DBusError) -> DBusStream<String?> {
        try await track(name)
        let (stream, feed) = makeStream(of: String?.self)
        let ticket = newTicket()
        feed.yield(.success(owners[name] ?? nil))
        // `track` added the match rule, and it stays installed.
        subscriptions.add(
            ticket,
            .init(match: .ownerChanges(of: name)) { signal in
                if let change = NameOwnerChange(signal) { feed.yield(.success(change.newOwner)) }
            } end: {
                feed.fail($0)
            })
        feed.onTermination = { [weak self] _ in self?.post { _ = $0.subscriptions.remove(ticket) } }
        return stream
    }

    func makeStream<Element: Sendable>(
        of: Element.Type
    ) -> (DBusStream<Element>, DBusStream<Element>.Elements.Continuation) {
        let (elements, feed) = DBusStream<Element>.Elements.makeStream()
        return (DBusStream(elements: elements, connection: self), feed)
    }

    /// Subscribes to signals. They are delivered on this actor, in order with all other messages, at the latest when this
    /// method returns.
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
        // The bus returns an error if it refused the rule before. The error is not relevant here.
        try? send(withoutReply: .bus("RemoveMatch", [.string(rule)]))
    }

    /// Tracks the owner of a name. After it returns, `owners[name]` is correct for each message that is processed. A
    /// tracked name stays tracked.
    func track(_ name: String) async throws(DBusError) {
        guard owners[name] == nil else { return }
        let rule = try DBusMatch.ownerChanges(of: name).rule()
        try Names.check(bus: name)
        try await request(.bus("AddMatch", [.string(rule)]))
        do throws(DBusError) {
            try await request(.bus("GetNameOwner", [.string(name)])) { answer in
                switch answer {
                case .success(let values): self.owners[name] = .some(values.first?.string)
                case .failure(let error) where error.name == DBusError.Name.nameHasNoOwner:
                    self.owners[name] = .some(nil)
                case .failure: break
                }
            }
        } catch {
            guard error.name == DBusError.Name.nameHasNoOwner else { throw error }
        }
    }
}

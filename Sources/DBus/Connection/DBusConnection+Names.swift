extension DBusConnection {
    /// Requests a well-known name, such as `org.example.Service`. Throws `nameTaken` if another connection owns it and does
    /// not release it, and the errors of `call`.
    ///
    /// - Parameters:
    ///   - isReplaceable: whether another connection can take over the name with `replacing`.
    ///   - replacing: take the name over from an owner that permits it.
    public func requestName(
        _ name: String, isReplaceable: Bool = false, replacing: Bool = false
    ) async throws(DBusError) {
        try Names.check(bus: name)
        // Specification, "RequestName". Flag 4: do not wait in the queue, because a queued request would look like success.
        let flags: UInt32 = (isReplaceable ? 1 : 0) | (replacing ? 2 : 0) | 4
        let answer = try await request(.bus("RequestName", [.string(name), .uint32(flags)])).require(0, \.uint32)
        // 1: this connection is now the owner; 4: it already was.
        guard answer == 1 || answer == 4 else {
            throw DBusError(.nameTaken, "another connection owns \(name)")
        }
    }

    /// Releases a name. Does nothing if this connection does not own it. Throws the errors of `call`.
    public func releaseName(_ name: String) async throws(DBusError) {
        try Names.check(bus: name)
        try await request(.bus("ReleaseName", [.string(name)]))
    }

    /// Follows the owner of a name. The first element is the current owner, and an element follows each change. An element is
    /// the owner's unique name; it is nil while the name has no owner. Throws the errors of `call`.
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

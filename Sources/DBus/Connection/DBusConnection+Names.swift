extension DBusConnection {
    /// Requests a well-known name, such as `org.example.Service`, for this connection.
    ///
    /// - Parameters:
    ///   - isReplaceable: whether another connection may later take over the name with `replacing`.
    ///   - replacing: whether to take over the name from an owner that permits it.
    ///
    /// - Throws: `nameTaken` if another connection owns the name and keeps it; the errors of `call`.
    public func requestName(
        _ name: String, isReplaceable: Bool = false, replacing: Bool = false
    ) async throws(DBusError) {
        try Names.check(bus: name)
        // The values of the flags are in the D-Bus specification, "RequestName". Flag 4 forbids the bus to queue the request.
        // A queued request could get the name after this method has thrown `nameTaken`.
        let flags: UInt32 = (isReplaceable ? 1 : 0) | (replacing ? 2 : 0) | 4
        let answer = try await request(.bus("RequestName", [.string(name), .uint32(flags)])).require(0, \.uint32)
        // Reply 1: this connection has become the owner. Reply 4: this connection already was the owner.
        guard answer == 1 || answer == 4 else {
            throw DBusError(.nameTaken, "another connection owns \(name)")
        }
    }

    /// Releases a name. Does nothing if this connection does not own it. Throws the errors of `call`.
    public func releaseName(_ name: String) async throws(DBusError) {
        try Names.check(bus: name)
        try await request(.bus("ReleaseName", [.string(name)]))
    }

    /// Returns a stream of the owners of a name. The first element is the current owner. One element follows for each change.
    /// An element is the unique name of the owner, or nil if the name has no owner. Throws the errors of `call`.
    public func owners(of name: String) async throws(DBusError) -> DBusStream<String?> {
        try await track(name)
        let (stream, feed) = makeStream(of: String?.self)
        let ticket = newTicket()
        feed.yield(.success(owners[name] ?? nil))
        // `track` has installed the match rule permanently. Therefore this subscription needs no match rule of its own.
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

    /// Starts to track the owner of a name. After this method returns, `owners[name]` always fits the message that is being
    /// processed, because changes of the owner arrive in order with all other messages. The tracking never stops.
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

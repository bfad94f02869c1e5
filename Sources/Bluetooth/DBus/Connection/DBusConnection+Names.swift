extension DBusConnection {
    /// Requests a well-known name, such as `org.example.Service`, for this connection.
    ///
    /// - Parameters:
    ///   - isReplaceable: true if another connection may take the name from this connection. The other connection must set `replacing`.
    ///   - replacing: true to take the name from its current owner. The current owner must have set `isReplaceable`.
    ///
    /// - Throws: `nameTaken` if another connection remains the owner of the name; the errors of `call`.
    public func requestName(
        _ name: String, isReplaceable: Bool = false, replacing: Bool = false
    ) async throws(DBusError) {
        try Names.check(bus: name)
        // The D-Bus specification ("RequestName") defines the flags. Flag 4 means that the bus must not queue the request. With a queued
        // request, this connection could get the name after this method has thrown `nameTaken`.
        let flags: UInt32 = (isReplaceable ? 1 : 0) | (replacing ? 2 : 0) | 4
        let answer = try await request(.bus("RequestName", [.string(name), .uint32(flags)])).require(0, \.uint32)
        // Reply 1 means that this connection has become the owner. Reply 4 means that this connection already was the
        // owner.
        guard answer == 1 || answer == 4 else {
            throw DBusError(.nameTaken, "another connection owns \(name)")
        }
    }

    /// Releases a bus name. Has no effect if this connection does not own the name. Throws the errors of `call`.
    public func releaseName(_ name: String) async throws(DBusError) {
        try Names.check(bus: name)
        try await request(.bus("ReleaseName", [.string(name)]))
    }

    /// Returns a stream of the owners of a bus name. The first element is the current owner, and one element follows for each change.
    /// Each element is the unique name of the owner, or nil if the name has no owner. Throws the errors of `call`.
    public func owners(of name: String) async throws(DBusError) -> DBusStream<String?> {
        try await track(name)
        let (stream, feed) = makeStream(of: String?.self)
        let ticket = newTicket()
        feed.yield(.success(owners[name] ?? nil))
        // Do not add a match rule to the bus for this subscription, because `track` has added the same rule and never removes it.
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

    /// Tracks the owner of a bus name until the connection ends.
    ///
    /// After this method has returned, `owners[name]` is the owner that the name had when the bus sent the currently processed message.
    /// The reason: the bus sends messages and changes of owners in one sequence, and the connection processes this sequence in order.
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

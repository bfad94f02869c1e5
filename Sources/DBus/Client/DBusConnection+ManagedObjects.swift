extension DBusConnection {
    /// Returns a stream of the changes of a service's objects. The first element is a snapshot, or `serviceLost` if the
    /// service is not running. All later changes follow in order. The stream continues when the service stops or starts.
    ///
    /// - Parameter root: the path of the service's ObjectManager.
    ///
    /// - Throws: the errors of `call`. If the objects cannot be read, the stream also throws these errors.
    public func managedObjects(
        of service: String, at root: DBusObjectPath = .root
    ) async throws(DBusError) -> DBusStream<DBusObjectChange> {
        try await track(service)
        let (stream, feed) = makeStream(of: DBusObjectChange.self)
        let follower = newTicket()
        followers[follower] = ObjectFollower(service: service, root: root, feed: feed)
        let signals = [
            // Also accept paths below the root. Some services, such as those built with dbus-fast, send these signals from
            // the object's path.
            DBusMatch(sender: service, pathNamespace: root, interface: Standard.objectManager),
            DBusMatch(
                sender: service, pathNamespace: root, interface: Standard.properties, member: "PropertiesChanged"),
        ]
        var tickets: [UInt64] = []
        do throws(DBusError) {
            for match in signals {
                tickets.append(
                    try await subscribe(match) {
                        self.followers[follower]?.deliver($0)
                    } end: {
                        feed.fail($0)
                    })
            }
        } catch {
            stopFollowing(follower, tickets)
            throw error
        }
        subscriptions.add(
            follower,
            .init(match: .ownerChanges(of: service)) { signal in
                if let change = NameOwnerChange(signal) { self.ask(change.newOwner, for: follower) }
            } end: {
                feed.fail($0)
            })
        ask(owners[service] ?? nil, for: follower)
        feed.onTermination = { [weak self, tickets] _ in self?.post { $0.stopFollowing(follower, tickets) } }
        return stream
    }

    private func stopFollowing(_ follower: UInt64, _ tickets: [UInt64]) {
        followers[follower] = nil
        _ = subscriptions.remove(follower)
        for ticket in tickets { unsubscribe(ticket) }
    }

    private func ask(_ owner: String?, for follower: UInt64) {
        guard let call = followers[follower]?.serviceChanged(to: owner) else { return }
        begin(call, ticket: newTicket(), timeout: .seconds(25)) { answer in
            self.followers[follower]?.received(answer, from: call.destination)
        }
    }
}

/// Forwards the object changes of one service to a stream. It drops the changes before the snapshot, because the snapshot
/// already contains them.
struct ObjectFollower {
    let service: String
    let root: DBusObjectPath
    let feed: DBusStream<DBusObjectChange>.Elements.Continuation
    /// The owner of the service's name. `GetManagedObjects` was called on this owner. Nil: the name has no owner.
    private var owner: String?
    private var hasSnapshot = false

    init(service: String, root: DBusObjectPath, feed: DBusStream<DBusObjectChange>.Elements.Continuation) {
        self.service = service
        self.root = root
        self.feed = feed
    }

    func deliver(_ signal: DBusSignal) {
        guard hasSnapshot, let change = DBusObjectChange(signal) else { return }
        feed.yield(.success(change))
    }

    /// Processes a change of the owner. Returns the call that reads the objects of the new owner, or nil if there is no new
    /// owner.
    mutating func serviceChanged(to newOwner: String?) -> DBusMethodCall? {
        if hasSnapshot || newOwner == nil { feed.yield(.success(.serviceLost)) }
        hasSnapshot = false
        owner = newOwner
        return newOwner.map { DBusMethodCall($0, root, Standard.objectManager, "GetManagedObjects") }
    }

    mutating func received(_ answer: PendingCalls.CallResult, from asked: String) {
        // After a change of the owner, the reply of the previous owner is obsolete. `serviceChanged` has handled the new
        // owner.
        guard owner == asked else { return }
        do throws(DBusError) {
            feed.yield(.success(try DBusObjectChange(snapshot: answer.get())))
            hasSnapshot = true
        } catch {
            // If an owner exits before it replies, the bus sends one of these errors, and then announces the change of the
            // owner. `serviceChanged` handles that change.
            guard error.name != DBusError.Name.noReply, error.name != DBusError.Name.serviceUnknown else { return }
            feed.fail(error)
        }
    }
}

extension DBusConnection {
    /// Returns a stream that reports each change of the objects of a service.
    ///
    /// The first element is a snapshot of all objects, or `serviceLost` if the service is not running. Each later element is a change.
    /// The stream stays open when the service stops, and sends a new snapshot when the service starts.
    ///
    /// - Parameter root: the path of the object that has the interface `org.freedesktop.DBus.ObjectManager`.
    ///
    /// - Throws: the errors of `call` if the subscription fails. If the stream cannot read the objects, the stream throws one of the
    ///   errors of `call`.
    public func managedObjects(
        of service: String, at root: DBusObjectPath = .root
    ) async throws(DBusError) -> DBusStream<DBusObjectChange> {
        try await track(service)
        let (stream, feed) = makeStream(of: DBusObjectChange.self)
        let follower = newTicket()
        followers[follower] = ObjectFollower(service: service, root: root, feed: feed)
        let signals = [
            // The D-Bus specification requires that the object at `root` sends InterfacesAdded and InterfacesRemoved. However, services
            // that use the library dbus-fast send these signals from the path of the added or removed object. Therefore this rule also
            // matches the paths below `root`.
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

/// Forwards the object changes of one service to a stream. The follower drops the changes that arrive before the
/// snapshot, because the snapshot already contains these changes.
struct ObjectFollower {
    let service: String
    let root: DBusObjectPath
    let feed: DBusStream<DBusObjectChange>.Elements.Continuation
    /// The unique name of the connection that owns the service's name; nil if the service is not running. The latest call of
    /// `GetManagedObjects` was sent to this connection.
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

    /// Processes a change of the owner of the service's name. Returns the call of `GetManagedObjects` to the new owner; nil if
    /// the service has no new owner.
    mutating func serviceChanged(to newOwner: String?) -> DBusMethodCall? {
        if hasSnapshot || newOwner == nil { feed.yield(.success(.serviceLost)) }
        hasSnapshot = false
        owner = newOwner
        return newOwner.map { DBusMethodCall($0, root, Standard.objectManager, "GetManagedObjects") }
    }

    mutating func received(_ answer: PendingCalls.CallResult, from asked: String) {
        // Ignore the reply if the owner has changed since the call, because the objects of the previous owner no longer exist.
        // `serviceChanged` has returned a new call for the new owner.
        guard owner == asked else { return }
        do throws(DBusError) {
            feed.yield(.success(try DBusObjectChange(snapshot: answer.get())))
            hasSnapshot = true
        } catch {
            // If the service exits before it replies, the bus sends the error `NoReply` or `ServiceUnknown`. These two errors do not end
            // the stream, because the bus also announces the change of the owner, and `serviceChanged` handles this change.
            guard error.name != DBusError.Name.noReply, error.name != DBusError.Name.serviceUnknown else { return }
            feed.fail(error)
        }
    }
}

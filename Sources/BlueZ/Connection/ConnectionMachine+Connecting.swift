import DBus

/// From a device to a link with known attributes.
extension ConnectionMachine {
    mutating func takeTurn(until: Duration?) {
        guard let adapter else { return }
        phase = .queueing(until: until)
        actions.append(.call(.takeTurn(adapter: adapter)))
    }

    mutating func queue(_ event: Event, _ until: Duration?) {
        switch event {
        case .finished(.takeTurn):
            guard let device else { return }
            phase = .connecting(until: until ?? now + request.limit)
            actions.append(.call(.connect(device)))
        case .failed(.takeTurn, let error): fail(error)
        default: break
        }
    }

    mutating func connect(_ event: Event, _ tree: ObjectTree, _ until: Duration) {
        switch event {
        case .finished(.connect):
            actions.append(.yieldTurn)
            startDiscovery(tree)
        case .failed(.connect, let error):
            connectFailed(error, tree, until)
        default:
            if now >= until {
                fail(BlueZError(.timedOut, "no connection within \(request.limit.components.seconds) s"))
            }
        }
    }

    private mutating func connectFailed(_ error: BlueZError, _ tree: ObjectTree, _ until: Duration) {
        let next = now + Self.settleTime
        switch error.code {
        // The object vanishes 30 s after the device was last heard of or connected: a scan finds it again. Where it is there, and
        // bluetoothd says that it is not, it would be found for ever.
        case .noSuchObject:
            guard repetitionsLeft > 0 else { return fail(error) }
            repetitionsLeft -= 1
            actions.append(.yieldTurn)
            rescan()
        // The link of before was not quite down ("Input/output error", "br-connection-canceled", "le-connection-abort-by-local",
        // a code that stands for any failure), or a cancelled attempt was not ("Operation already in progress").
        case .connectionFailed, .failed, .inProgress, .disconnected:
            guard next < until else { return fail(explained(error, tree)) }
            actions.append(.yieldTurn)
            phase = .reconnecting(at: next, until: until)
        default: fail(error)
        }
    }

    /// A device that has lost its half of a bond ends every link when it is to be encrypted.
    private func explained(_ error: BlueZError, _ tree: ObjectTree) -> BlueZError {
        guard let device, tree.devices[device]?.isPaired == true else { return error }
        var error = error
        error.context += "; it is paired with this machine, and may have lost its half of the bond"
        return error
    }

    mutating func reconnect(_ tree: ObjectTree, _ at: Duration, _ until: Duration?) {
        guard now >= at else { return }
        guard let device, tree.devices[device] != nil else { return rescan() }
        takeTurn(until: until)
    }

    private mutating func startDiscovery(_ tree: ObjectTree) {
        let until = now + request.limit
        phase = .discovering(until: until, wasConnected: false)
        discover(.treeChanged, tree, until, false)
    }

    /// `Connect` may be answered before its link is told of, and even where no link came: an attempt that was aborted counts as
    /// a success (`att_connect_cb`). So only the device's properties count.
    mutating func discover(_ event: Event, _ tree: ObjectTree, _ until: Duration, _ wasConnected: Bool) {
        let record = device.flatMap { tree.devices[$0] }
        if let record, record.isConnected {
            guard !record.areServicesResolved else {
                // bluetoothd may tell that the services are resolved before it tells the services: each object's signals wait in
                // a queue of its own. Before it answers a call it sends all of them, so an answer is a barrier.
                phase = .refreshing(until: until)
                return actions.append(.call(.refresh))
            }
            phase = .discovering(until: until, wasConnected: true)
        } else if wasConnected {
            // "Device is already connected" in its log: it took the new link for the old one and broke off the discovery.
            return again()
        }
        if now >= until {
            fail(BlueZError(.timedOut, "no services within \(request.limit.components.seconds) s"))
        }
    }

    mutating func refresh(_ event: Event, _ tree: ObjectTree, _ until: Duration) {
        switch event {
        case .finished(.refresh): checkServices(tree)
        case .failed(.refresh, let error): fail(error)
        default:
            if now >= until { fail(BlueZError(.timedOut, "bluetoothd did not list its objects")) }
        }
    }

    private mutating func checkServices(_ tree: ObjectTree) {
        guard let device, let record = tree.devices[device], record.isConnected else { return again() }
        let missing = request.services.subtracting(tree.services(of: device).map(\.uuid))
        // bluetoothd keeps the attributes it once read. A device without a bond, a Service Changed characteristic and a database
        // hash cannot tell it that other firmware has others.
        let hasNone = !missing.isEmpty && missing == request.services
        let isStale = hadServices && hasNone || !advertised.isDisjoint(with: missing)
        if isStale, !hasRefreshedCache, !isShared, !record.isPaired { return forget(record) }
        endedLinks = tree.endedLinks(of: device)
        phase = .ready
        actions.append(.ready(device))
    }

    private mutating func again() {
        guard repetitionsLeft > 0 else {
            return fail(BlueZError(.disconnected, "the link broke before the device's services were known"))
        }
        repetitionsLeft -= 1
        phase = .reconnecting(at: now + Self.settleTime, until: nil)
    }

    /// The link is up: only its end is of interest.
    mutating func watch(_ tree: ObjectTree) {
        guard let device, tree.isConnected(device, since: endedLinks) else {
            return fail(BlueZError(.disconnected, "the device has disconnected"))
        }
    }
}

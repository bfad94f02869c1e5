import DBus

/// The phases from a found device to a link with discovered services.
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
        // bluetoothd removes the object 30 s after the last advertisement or connection. A scan finds the device again. The
        // repetitions are limited: if the object exists and bluetoothd still reports that it does not, the scan would find
        // it without end.
        case .noSuchObject:
            guard repetitionsLeft > 0 else { return fail(error) }
            repetitionsLeft -= 1
            actions.append(.yieldTurn)
            rescan()
        // The previous link was still closing ("Input/output error", "br-connection-canceled",
        // "le-connection-abort-by-local", or a code that means any failure), or a cancelled attempt was still active
        // ("Operation already in progress").
        case .connectionFailed, .failed, .inProgress, .disconnected:
            guard next < until else { return fail(explained(error, tree)) }
            actions.append(.yieldTurn)
            phase = .reconnecting(at: next, until: until)
        default: fail(error)
        }
    }

    /// Adds a likely cause for a paired device: a device that has lost its bond data ends every link that is to be
    /// encrypted.
    private func explained(_ error: BlueZError, _ tree: ObjectTree) -> BlueZError {
        guard let device, tree.devices[device]?.isPaired == true else { return error }
        var error = error
        error.context += "; this machine is paired with the device, but the device may have lost the bond"
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

    /// `Connect` may return before bluetoothd announces the link. It may even succeed without a link: bluetoothd reports an
    /// aborted attempt as success (`att_connect_cb`). Therefore only the device's properties are reliable.
    mutating func discover(_ event: Event, _ tree: ObjectTree, _ until: Duration, _ wasConnected: Bool) {
        let record = device.flatMap { tree.devices[$0] }
        if let record, record.isConnected {
            guard !record.areServicesResolved else {
                // bluetoothd may announce that the services are resolved before it announces the services, because each
                // object has its own queue of signals. It sends all queued signals before it answers a call. Therefore a
                // reply is a barrier.
                phase = .refreshing(until: until)
                return actions.append(.call(.refresh))
            }
            phase = .discovering(until: until, wasConnected: true)
        } else if wasConnected {
            // bluetoothd logs "Device is already connected": it mistook the new link for the old one and aborted the
            // discovery.
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
        // bluetoothd caches the attributes. If a device has no bond, no Service Changed characteristic and no database
        // hash, it cannot announce that its new firmware has different attributes.
        let hasNone = !missing.isEmpty && missing == request.services
        let isStale = hadServices && hasNone || !advertised.isDisjoint(with: missing)
        if isStale, !hasRefreshedCache, !isShared, !record.isPaired { return forget(record) }
        endedLinks = tree.endedLinks(of: device)
        phase = .ready
        actions.append(.ready(device))
    }

    private mutating func again() {
        guard repetitionsLeft > 0 else {
            return fail(BlueZError(.disconnected, "the link was lost during service discovery"))
        }
        repetitionsLeft -= 1
        phase = .reconnecting(at: now + Self.settleTime, until: nil)
    }

    /// Watches a ready link for its end.
    mutating func watch(_ tree: ObjectTree) {
        guard let device, tree.isConnected(device, since: endedLinks) else {
            return fail(BlueZError(.disconnected, "the device disconnected"))
        }
    }
}

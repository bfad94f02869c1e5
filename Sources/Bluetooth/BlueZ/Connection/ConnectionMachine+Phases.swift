import DBus

/// The phases before the connection: wait for the adapter, find the device, end an earlier link.
extension ConnectionMachine {
    mutating func wait(_ tree: BlueZObjectTree) {
        guard case .waiting(let until) = phase else { return }
        do throws(BlueZError) {
            let adapter = try tree.usableAdapter(request.adapter)
            self.adapter = adapter.path
            generation = tree.generation
            find(tree, adapter.path)
        } catch {
            // The error may be temporary: after its start, bluetoothd first announces the adapters one by one, and then powers them on.
            if !request.waitsForAdapter || now >= until { fail(error) }
        }
    }

    private mutating func find(_ tree: BlueZObjectTree, _ adapter: DBusObjectPath) {
        // If the target is an address, and bluetoothd already lists a device with this address, no scan is necessary. After `Connect`,
        // bluetoothd itself waits for the device's advertisements. During this wait, no other device can connect.
        guard case .address = request.target,
            let known = tree.devices(of: adapter).first(where: request.target.matches),
            !request.hearsFirst || known.isConnected || known.isPaired
        else { return startScan(adapter) }
        choose(known, tree)
    }

    private mutating func startScan(_ adapter: DBusObjectPath) {
        phase = .scanning(until: now + request.limit, decision: nil)
        device = nil
        actions.append(.call(.scan(adapter: adapter)))
    }

    private mutating func rescan() {
        if let adapter { startScan(adapter) }
    }

    mutating func scan(_ event: Event, _ tree: BlueZObjectTree, _ until: Duration, _ decision: Duration?) {
        if case .failed(.scan, let error) = event { return fail(error) }
        guard let adapter else { return }
        let candidates = tree.devices(of: adapter).filter { $0.isInRange && request.target.matches($0) }
        if let only = candidates.first {
            if case .address = request.target { return found(only, tree) }
            guard let decision else {
                phase = .scanning(until: until, decision: now + Self.decisionTime)
                return
            }
            guard now >= min(decision, until) else { return }
            if candidates.count == 1 { return found(only, tree) }
            let list = candidates.map { "\($0.address) \($0.name ?? "–")" }.joined(separator: ", ")
            fail(BlueZError(.ambiguousDevice, "\(candidates.count) devices in range match: \(list)"))
        } else if now >= until {
            let seconds = request.limit.components.seconds
            fail(BlueZError(.noSuchDevice, "\(request.target) was not seen within \(seconds) s"))
        }
    }

    private mutating func found(_ device: BluetoothDevice, _ tree: BlueZObjectTree) {
        actions.append(.stopScan)
        choose(device, tree)
    }

    private mutating func choose(_ chosen: BluetoothDevice, _ tree: BlueZObjectTree) {
        device = chosen.path
        advertised = chosen.serviceUUIDs
        hadServices = !tree.services(of: chosen.path).isEmpty
        guard request.admits != nil else { return approach(chosen, tree) }
        phase = .admitting
        actions.append(.call(.admit(chosen.path)))
    }

    mutating func admit(_ event: Event, _ tree: BlueZObjectTree) {
        switch event {
        case .finished(.admit(let path)):
            guard let chosen = tree.devices[path] else { return rescan() }
            approach(chosen, tree)
        case .failed(.admit, let error): fail(error)
        default: break
        }
    }

    private mutating func approach(_ chosen: BluetoothDevice, _ tree: BlueZObjectTree) {
        if request.refreshesCache, !hasRefreshedCache, !chosen.isPaired { return removeDevice(chosen) }
        if chosen.isConnected, request.takesOver {
            let call = Call.disconnect(chosen.path)
            phase = .clearing(call, until: now + request.limit)
            actions.append(.call(call))
        } else {
            isShared = chosen.isConnected
            endedLinks = tree.endedLinks(of: chosen.path)
            takeTurn(until: nil)
        }
    }

    private mutating func removeDevice(_ device: BluetoothDevice) {
        hasRefreshedCache = true
        let call = Call.removeDevice(device.path, adapter: device.adapter)
        phase = .clearing(call, until: now + request.limit)
        actions.append(.call(call))
    }

    mutating func clear(_ event: Event, _ tree: BlueZObjectTree, _ call: Call, _ until: Duration) {
        guard event == .finished(call) || event.isFailure(of: call) || now >= until else { return }
        guard now < until else { return fail(BlueZError(.timedOut, "an earlier link to the device did not end")) }
        // Continue even after an error reply, because bluetoothd also replies with an error if the link or the device's object no
        // longer exists. The next phase scans for the device if its object no longer exists.
        phase = .reconnecting(at: now + Self.settleTime, until: nil)
    }
}

/// The phases of the connection: take the turn, connect, discover the services, check the services.
extension ConnectionMachine {
    private mutating func takeTurn(until: Duration?) {
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

    mutating func connect(_ event: Event, _ tree: BlueZObjectTree, _ until: Duration) {
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

    private mutating func connectFailed(_ error: BlueZError, _ tree: BlueZObjectTree, _ until: Duration) {
        let next = now + Self.settleTime
        switch error.code {
        // bluetoothd removes a device's object 30 s after the last advertisement or connection. A scan finds the device again. The number
        // of scans is limited, because bluetoothd could report this error for an object that exists. Without the limit, the machine would
        // then scan and connect without end.
        case .noSuchObject:
            guard repetitionsLeft > 0 else { return fail(error) }
            repetitionsLeft -= 1
            actions.append(.yieldTurn)
            rescan()
        // These errors are temporary in two cases. First: the previous link is still closing. bluetoothd then reports
        // "Input/output error", "br-connection-canceled", "le-connection-abort-by-local" or a general failure. Second: a
        // cancelled attempt is still active ("Operation already in progress").
        case .connectionFailed, .failed, .inProgress, .disconnected:
            guard next < until else { return fail(explained(error, tree)) }
            actions.append(.yieldTurn)
            phase = .reconnecting(at: next, until: until)
        default: fail(error)
        }
    }

    /// Adds a possible cause to the text of the error if the device is paired: the device may have lost the bond. Without the bond, the
    /// link cannot be encrypted, and the device ends the link.
    private func explained(_ error: BlueZError, _ tree: BlueZObjectTree) -> BlueZError {
        guard let device, tree.devices[device]?.isPaired == true else { return error }
        var error = error
        error.context += "; this machine is paired with the device, but the device may have lost the bond"
        error.bond = .mismatched
        return error
    }

    mutating func reconnect(_ tree: BlueZObjectTree, _ at: Duration, _ until: Duration?) {
        guard now >= at else { return }
        guard let device, tree.devices[device] != nil else { return rescan() }
        takeTurn(until: until)
    }

    private mutating func startDiscovery(_ tree: BlueZObjectTree) {
        let until = now + request.limit
        phase = .discovering(until: until, wasConnected: false)
        discover(.treeChanged, tree, until, false)
    }

    /// Waits until the device is connected and its services are resolved. This method checks the device's properties, because the reply to
    /// `Connect` is not reliable. bluetoothd may reply before it announces the link. bluetoothd also reports success for an attempt that
    /// was aborted and created no link (function `att_connect_cb` of BlueZ).
    mutating func discover(_ event: Event, _ tree: BlueZObjectTree, _ until: Duration, _ wasConnected: Bool) {
        let record = device.flatMap { tree.devices[$0] }
        if let record, record.isConnected {
            guard !record.areServicesResolved else {
                // bluetoothd may announce that the services are resolved before it announces the services, because each object
                // has its own queue of signals. bluetoothd sends all queued signals before it replies to a call. Therefore the
                // tree contains all services after the reply to `refresh`.
                phase = .refreshing(until: until)
                return actions.append(.call(.refresh))
            }
            phase = .discovering(until: until, wasConnected: true)
        } else if wasConnected {
            // The link has ended. One known cause is a bug: bluetoothd confuses the new link with the previous link, and aborts the
            // discovery. bluetoothd then logs "Device is already connected".
            return again()
        }
        if now >= until {
            fail(BlueZError(.timedOut, "no services within \(request.limit.components.seconds) s"))
        }
    }

    mutating func refresh(_ event: Event, _ tree: BlueZObjectTree, _ until: Duration) {
        switch event {
        case .finished(.refresh): checkServices(tree)
        case .failed(.refresh, let error): fail(error)
        default:
            if now >= until { fail(BlueZError(.timedOut, "bluetoothd did not list its objects")) }
        }
    }

    private mutating func checkServices(_ tree: BlueZObjectTree) {
        guard let device, let record = tree.devices[device], record.isConnected else { return again() }
        let missing = request.services.subtracting(tree.services(of: device).map(\.uuid))
        // bluetoothd caches the attribute table, so the table may be from older firmware. Not every device can announce a new table.
        // Therefore, if the table seems to be old, remove the device, so that bluetoothd reads a new table. Do not remove a paired device,
        // because the removal would delete the bond. Do not remove a device with a shared link, because the removal would end the link.
        let hasNone = !missing.isEmpty && missing == request.services
        let isStale = hadServices && hasNone || !advertised.isDisjoint(with: missing)
        if isStale, !hasRefreshedCache, !isShared, !record.isPaired { return removeDevice(record) }
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

    /// Fails with `disconnected` if the link has ended after it was ready.
    mutating func watch(_ tree: BlueZObjectTree) {
        guard let device, tree.isConnected(device, since: endedLinks) else {
            return fail(BlueZError(.disconnected, "the device disconnected"))
        }
    }
}

extension ConnectionMachine.Event {
    fileprivate func isFailure(of call: ConnectionMachine.Call) -> Bool {
        if case .failed(call, _) = self { true } else { false }
    }
}

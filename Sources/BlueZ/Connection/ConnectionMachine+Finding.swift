import DBus

/// The phases from the start to a device that can be connected.
extension ConnectionMachine {
    mutating func wait(_ tree: ObjectTree) {
        guard case .waiting(let until) = phase else { return }
        do throws(BlueZError) {
            let adapter = try tree.usableAdapter(request.adapter)
            self.adapter = adapter.path
            generation = tree.generation
            find(tree, adapter.path)
        } catch {
            // After its start, bluetoothd announces its adapters one by one and powers them on last.
            if !request.waitsForAdapter || now >= until { fail(error) }
        }
    }

    private mutating func find(_ tree: ObjectTree, _ adapter: DBusObjectPath) {
        // A known address needs no scan: during `Connect`, bluetoothd waits for the device's advertisements itself.
        guard case .address = request.target,
            let known = tree.devices(of: adapter).first(where: request.target.matches)
        else { return startScan(adapter) }
        choose(known, tree)
    }

    private mutating func startScan(_ adapter: DBusObjectPath) {
        phase = .scanning(until: now + request.limit, decision: nil)
        device = nil
        actions.append(.call(.scan(adapter: adapter)))
    }

    mutating func rescan() {
        if let adapter { startScan(adapter) }
    }

    mutating func scan(_ event: Event, _ tree: ObjectTree, _ until: Duration, _ decision: Duration?) {
        if case .failed(.scan, let error) = event { return fail(error) }
        guard let adapter else { return }
        let candidates = tree.devices(of: adapter).filter { $0.isInReach && request.target.matches($0) }
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

    private mutating func found(_ device: BluetoothDevice, _ tree: ObjectTree) {
        actions.append(.stopScan)
        choose(device, tree)
    }

    private mutating func choose(_ chosen: BluetoothDevice, _ tree: ObjectTree) {
        device = chosen.path
        advertised = chosen.serviceUUIDs
        hadServices = !tree.services(of: chosen.path).isEmpty
        guard request.admits != nil else { return approach(chosen, tree) }
        phase = .admitting
        actions.append(.call(.admit(chosen.path)))
    }

    mutating func admit(_ event: Event, _ tree: ObjectTree) {
        switch event {
        case .finished(.admit(let path)):
            guard let chosen = tree.devices[path] else { return rescan() }
            approach(chosen, tree)
        case .failed(.admit, let error): fail(error)
        default: break
        }
    }

    private mutating func approach(_ chosen: BluetoothDevice, _ tree: ObjectTree) {
        if request.refreshesCache, !hasRefreshedCache { return forget(chosen) }
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

    mutating func forget(_ device: BluetoothDevice) {
        hasRefreshedCache = true
        let call = Call.forget(device.path, adapter: device.adapter)
        phase = .clearing(call, until: now + request.limit)
        actions.append(.call(call))
    }

    mutating func clear(_ event: Event, _ tree: ObjectTree, _ call: Call, _ until: Duration) {
        guard event == .finished(call) || event.isFailure(of: call) || now >= until else { return }
        guard now < until else { return fail(BlueZError(.timedOut, "an earlier link to the device did not end")) }
        // The previous link or cache entry is gone, whatever the reply was. If the object is gone too, a scan finds the
        // device again.
        phase = .reconnecting(at: now + Self.settleTime, until: nil)
    }
}

extension ConnectionMachine.Event {
    func isFailure(of call: ConnectionMachine.Call) -> Bool {
        if case .failed(call, _) = self { true } else { false }
    }
}

extension BluetoothDevice {
    /// Whether the device is in range. bluetoothd reports a signal strength only during a scan.
    var isInReach: Bool { rssi != nil || isConnected }
}

extension ObjectTree {
    /// The reason why the adapter is lost. Nil while bluetoothd runs, its `generation` is the same, and the adapter exists
    /// and is powered.
    func loss(of adapter: DBusObjectPath, since generation: Int) -> BlueZError? {
        guard isServiceRunning, self.generation == generation else {
            return BlueZError(.serviceUnavailable, "bluetoothd stopped")
        }
        guard let record = adapters[adapter] else { return BlueZError(.noSuchAdapter, "the adapter was removed") }
        return record.isPowered ? nil : BlueZError(.adapterOff, "\(record.name) was switched off")
    }

    /// Returns the adapter.
    ///
    /// - Parameter name: the adapter's name. Nil: the first powered adapter.
    package func usableAdapter(_ name: String?) throws(BlueZError) -> BluetoothAdapter {
        guard isServiceRunning else {
            throw BlueZError(.serviceUnavailable, "bluetoothd is not running")
        }
        let all = adapterList.filter { name == nil || $0.name == name }
        if let usable = all.first(where: \.isPowered) { return usable }
        if let off = all.first { throw BlueZError(.adapterOff, "\(off.name) is switched off") }
        throw BlueZError(.noSuchAdapter, name.map { "there is no adapter \($0)" } ?? "there is no Bluetooth adapter")
    }
}

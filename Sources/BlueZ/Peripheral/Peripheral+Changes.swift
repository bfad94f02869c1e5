import DBus

/// Processing of changes that bluetoothd reports for adapters and devices.
extension Peripheral {
    func follow(_ changes: DBusStream<DBusObjectChange>) async {
        do throws(DBusError) {
            for try await change in changes { apply(change) }
        } catch {
            fail(BlueZError(error, "the bus"))
        }
    }

    func apply(_ change: DBusObjectChange) {
        switch change {
        case .snapshot(let objects): for (path, interfaces) in objects { added(path, interfaces) }
        case .added(let path, let interfaces): added(path, interfaces)
        case .removed(let path, let names):
            if names.contains(BlueZName.device) { ended(path) }
            if path == adapter, names.contains(BlueZName.gattManager) { registration.forget() }
        case .changed(let change):
            if change.interface == BlueZName.device { noticed(change.path, change.changed) }
            // Advertising is not possible while the adapter is off, so register again now.
            if change.path == adapter, change.changed["Powered"]?.boolean == true { register() }
        case .serviceLost:
            emit(table.clear())
            registration.forget()
        }
    }

    private func added(_ path: DBusObjectPath, _ interfaces: DBusObjectChange.Interfaces) {
        if let properties = interfaces[BlueZName.device] { noticed(path, properties) }
        if path == adapter, interfaces.keys.contains(BlueZName.gattManager) { register() }
    }

    private func noticed(_ device: DBusObjectPath, _ properties: [String: DBusValue]) {
        guard device.isDescendant(of: adapter), let isConnected = properties["Connected"]?.boolean else { return }
        if isConnected {
            emit(table.connected(device))
        } else {
            ended(device)
        }
    }

    func ended(_ device: DBusObjectPath) {
        table.disconnected(device, at: start.duration(to: .now))
        Task {
            try? await Task.sleep(for: ConnectionTable.linger)
            emit(table.expire(at: start.duration(to: .now)))
        }
    }
}

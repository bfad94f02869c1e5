import DBus

extension BlueZClient {
    /// Scans while `body` runs. The discovery always ends afterwards: on return, error or cancellation.
    ///
    /// Scans and connections over one adapter do not disturb each other, because a scan pauses while a connection is made.
    ///
    /// - Parameter adapter: the adapter's name, such as `hci1`. Nil: the first powered adapter.
    ///
    /// - Throws: the errors of `body`; `bluetoothd-unavailable`, `no-such-adapter`, `adapter-off`.
    public nonisolated func withScan<Result>(
        over adapter: String? = nil, for filter: ScanFilter = ScanFilter(), _ body: (Scan) async throws -> Result
    ) async throws -> Result {
        let (scan, radio) = try await prepareScan(adapter, filter)
        let ticket = await radio.newTicket()
        do {
            try await radio.startScan(ticket, filter)
            let result = try await body(scan)
            await radio.endScan(ticket)
            return result
        } catch {
            await radio.endScan(ticket)
            throw error
        }
    }

    /// Returns the devices found within `duration`, the strongest signal first. Throws the errors of `withScan`, and
    /// `cancelled`.
    public nonisolated func scan(
        for duration: Duration, over adapter: String? = nil, filter: ScanFilter = ScanFilter()
    ) async throws -> [BluetoothDevice] {
        try await withScan(over: adapter, for: filter) { scan in
            let seen = try await withThrowingTaskGroup(of: [DBusObjectPath: BluetoothDevice]?.self) { group in
                group.addTask {
                    try? await Task.sleep(for: duration)
                    return nil
                }
                group.addTask {
                    var seen: [DBusObjectPath: BluetoothDevice] = [:]
                    for try await event in scan { seen.note(event) }
                    return seen
                }
                _ = try await group.next()
                group.cancelAll()
                return try await group.next() ?? nil
            }
            guard let seen, !Task.isCancelled else { throw BlueZError(.cancelled, "the scan was cancelled") }
            return seen.values.sorted { $0.rssi ?? .min > $1.rssi ?? .min }
        }
    }

    /// Returns a new scan and the radio for it.
    private func prepareScan(_ name: String?, _ filter: ScanFilter) throws(BlueZError) -> (Scan, AdapterRadio) {
        if let end { throw end }
        let adapter = try tree.usableAdapter(name).path
        return (Scan(client: self, adapter: adapter, generation: tree.generation, filter: filter), radio(adapter))
    }

    /// Returns the devices that the scan may report.
    func devices(for scan: Scan) throws(BlueZError) -> [BluetoothDevice] {
        if let end { throw end }
        if let loss = tree.loss(of: scan.adapter, since: scan.generation) { throw loss }
        return tree.devices(of: scan.adapter)
    }
}

extension [DBusObjectPath: BluetoothDevice] {
    fileprivate mutating func note(_ event: ScanEvent) {
        switch event {
        case .appeared(let device), .changed(let device): self[device.path] = device
        case .disappeared(let device): self[device.path] = nil
        }
    }
}

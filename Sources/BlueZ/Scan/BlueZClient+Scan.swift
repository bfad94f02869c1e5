import DBus

extension BlueZClient {
    /// Scans while `body` runs; the discovery is ended on every way out.
    ///
    /// Scans and connections over one adapter do not disturb each other: a scan pauses while a connection is made.
    ///
    /// - Parameter adapter: such as `hci1`; nil: the first that is powered.
    /// - Throws: what `body` throws; `bluetoothd-unavailable`, `no-such-adapter`, `adapter-off`.
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

    /// The devices seen within `duration`, the strongest first. Throws what `withScan` throws, and `cancelled`.
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

    /// The scan that is to be, and who carries it out.
    private func prepareScan(_ name: String?, _ filter: ScanFilter) throws(BlueZError) -> (Scan, AdapterRadio) {
        if let end { throw end }
        let adapter = try tree.usableAdapter(name).path
        return (Scan(client: self, adapter: adapter, generation: tree.generation, filter: filter), radio(adapter))
    }

    /// The devices a scan may be about.
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

import DBus

/// The events of a running scan. Each iterator first reports each device that is already present as `appeared`. The sequence throws when
/// bluetoothd has stopped or the adapter is not available. The sequence ends without an error when the reading task is cancelled.
public struct Scan: AsyncSequence, Sendable {
    let client: BlueZClient
    let adapter: DBusObjectPath
    let generation: Int
    let filter: ScanFilter

    public func makeAsyncIterator() -> Iterator { Iterator(scan: self) }

    public struct Iterator: AsyncIteratorProtocol {
        private let scan: Scan
        private var changes: AsyncStream<Void>.Iterator?
        private var seen: [DBusObjectPath: BluetoothDevice] = [:]
        private var events: ArraySlice<ScanEvent> = []

        init(scan: Scan) { self.scan = scan }

        public mutating func next() async throws(BlueZError) -> ScanEvent? { try await next(isolation: #isolation) }

        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(BlueZError) -> ScanEvent? {
            var changes: AsyncStream<Void>.Iterator
            if let known = self.changes {
                changes = known
            } else {
                changes = await scan.client.changes().makeAsyncIterator()
            }
            defer { self.changes = changes }
            while true {
                if let event = events.popFirst() { return event }
                guard await changes.next(isolation: actor) != nil else { return nil }
                look(at: try await scan.client.devices(for: scan))
            }
        }

        /// Creates the events for the differences between `devices` and the previously present devices. A previously present device that
        /// has no signal strength now counts as present and unchanged. The reason is that bluetoothd clears all signal strengths in two
        /// cases: when a scan pauses, and when the scan of another program ends.
        private mutating func look(at devices: [BluetoothDevice]) {
            let present = devices.compactMap { $0.rssi == nil ? seen[$0.path] : $0 }
                .filter { scan.filter.admits($0, known: seen[$0.path] != nil) }
            let gone = seen.keys.filter { path in !present.contains { $0.path == path } }
            let updated = present.filter { seen[$0.path] != $0 }
            events =
                (gone.compactMap { seen[$0].map { .disappeared($0) } }
                + updated.map { seen[$0.path] == nil ? .appeared($0) : .changed($0) })[...]
            seen = Dictionary(present.map { ($0.path, $0) }) { first, _ in first }
        }
    }
}

/// A change of a device during a scan.
public enum ScanEvent: Sendable, Equatable {
    case appeared(BluetoothDevice)
    case changed(BluetoothDevice)
    /// bluetoothd has received no packet from the device for 30 s, the signal is weaker than ``ScanFilter/minimumRSSI``, or a program has
    /// removed the device from bluetoothd.
    case disappeared(BluetoothDevice)
}

/// A filter for the devices of a scan. A device must match all conditions that are set.
public struct ScanFilter: Sendable, Hashable {
    /// The services to search for. A device must advertise at least one of these services. If the set is empty, every device matches. If
    /// the set is not empty, and no other scan needs other devices, the kernel discards the advertising packets without these services.
    public var services: Set<BluetoothUUID>
    /// The minimum signal strength in dBm; nil for any signal strength. The scan omits devices with a weaker signal.
    public var minimumRSSI: Int?
    /// The name to search for; nil for any name. A device matches if its own name or its alias on this machine equals this name.
    public var name: String?

    public init(services: Set<BluetoothUUID> = [], minimumRSSI: Int? = nil, name: String? = nil) {
        self.services = services
        self.minimumRSSI = minimumRSSI
        self.name = name
    }

    /// Returns whether the device matches the filter. `known` is true if the device has matched before. For a known device, this method
    /// checks only the signal strength. The name may have changed since then, because bluetoothd replaces the advertised name with the
    /// name in the GAP service after a connection.
    func admits(_ device: BluetoothDevice, known: Bool) -> Bool {
        guard let rssi = device.rssi, rssi >= minimumRSSI ?? .min else { return false }
        return known
            || (services.isEmpty || !services.isDisjoint(with: device.serviceUUIDs))
                && (name.map(device.isCalled) ?? true)
    }
}

extension BlueZClient {
    /// Scans while `body` runs. The scan always ends when `body` has returned or has thrown an error.
    ///
    /// Scans and connections over one adapter do not disturb each other, because all scans pause while this client connects. If the
    /// client connects now, `body` runs after this attempt.
    ///
    /// - Parameter adapter: the name of the adapter, such as `hci1`; nil for the first powered adapter.
    ///
    /// - Throws: the errors of `body`; ``BlueZError/Code/serviceUnavailable``, ``BlueZError/Code/noSuchAdapter``,
    ///   ``BlueZError/Code/adapterOff``.
    public nonisolated func withScan<Result>(
        over adapter: String? = nil, for filter: ScanFilter = ScanFilter(), _ body: (Scan) async throws -> Result
    ) async throws -> Result {
        let (scan, radio) = try await prepareScan(adapter, filter)
        let ticket = await radio.newTicket()
        do {
            try await radio.startScan(ticket, filter, waitsForTurn: true)
            let result = try await body(scan)
            await radio.endScan(ticket)
            return result
        } catch {
            await radio.endScan(ticket)
            throw error
        }
    }

    /// Scans for the time `duration` and returns the devices that are present at the end, the strongest signal first. Throws the
    /// errors of `withScan`, and ``BlueZError/Code/cancelled``.
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

    /// Returns a new scan, and the `AdapterRadio` of its adapter.
    private func prepareScan(_ name: String?, _ filter: ScanFilter) throws(BlueZError) -> (Scan, AdapterRadio) {
        if let end { throw end }
        let adapter = try tree.usableAdapter(name).path
        return (Scan(client: self, adapter: adapter, generation: tree.generation, filter: filter), radio(adapter))
    }

    /// Returns all devices of the scan's adapter. Throws if bluetoothd has stopped or the adapter is not available.
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

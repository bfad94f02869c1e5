import DBus

/// A running scan: a sequence of its events from the start. It throws when the scan cannot continue. It ends when the
/// reading task is cancelled.
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

        /// Creates events for the differences. bluetoothd clears every signal strength when a scan pauses or another
        /// program's scan ends. A device without a signal strength is therefore still present.
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

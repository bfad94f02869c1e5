/// An event of a peripheral.
public enum PeripheralEvent: Sendable {
    case connected(PeripheralConnection)
    /// A central disconnected. This event comes after all other events of the connection.
    case disconnected(PeripheralConnection)
    /// Notifications or indications were turned on or off. bluetoothd does not report which central did it. Therefore there
    /// is one event for each connected central, and one for each central that connects while they are on.
    case subscribed(PeripheralConnection, LocalAttribute, on: Bool)
    case read(ReadRequest)
    case write(WriteRequest)
}

/// One connection from a central to this machine.
public struct PeripheralConnection: Sendable, Hashable {
    /// The number of this connection; a `Peripheral` counts its connections from 1.
    public let number: Int
    public let central: BluetoothAddress
}

/// Identifies a characteristic of a service.
public struct LocalAttribute: Sendable, Hashable {
    public var service: BluetoothUUID
    public var characteristic: BluetoothUUID

    public init(_ service: BluetoothUUID, _ characteristic: BluetoothUUID) {
        self.service = service
        self.characteristic = characteristic
    }
}

/// The events of a peripheral, in the order of bluetoothd's reports, for one reader. The sequence ends when the peripheral is
/// closed. It throws ``BlueZError/Code/busUnavailable`` when the bus connection ends. It ends without an error when the reading
/// task is cancelled.
public struct PeripheralEvents: AsyncSequence, Sendable {
    typealias Elements = AsyncStream<Result<PeripheralEvent, BlueZError>>
    let elements: Elements

    public func makeAsyncIterator() -> Iterator { Iterator(elements: elements.makeAsyncIterator()) }

    public struct Iterator: AsyncIteratorProtocol {
        var elements: Elements.Iterator

        public mutating func next() async throws(BlueZError) -> PeripheralEvent? {
            try await next(isolation: #isolation)
        }

        public mutating func next(
            isolation actor: isolated (any Actor)?
        ) async throws(BlueZError) -> PeripheralEvent? { try await elements.next(isolation: actor)?.get() }
    }
}

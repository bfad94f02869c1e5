/// What happens to a peripheral.
public enum PeripheralEvent: Sendable {
    case connected(PeripheralConnection)
    /// Behind all that came over the connection.
    case disconnected(PeripheralConnection)
    /// Notifications or indications were turned on or off. bluetoothd does not tell by which central: there is one event for
    /// each that is connected, and for each that connects while they are on.
    case subscribed(PeripheralConnection, LocalAttribute, on: Bool)
    case read(ReadRequest)
    case write(WriteRequest)
}

/// One central's connection to this machine, as long as it lasts.
public struct PeripheralConnection: Sendable, Hashable {
    /// Counts the connections of one `Peripheral`, from 1.
    public let number: Int
    public let central: BluetoothAddress
}

/// Where a value belongs: a characteristic of a service.
public struct LocalAttribute: Sendable, Hashable {
    public var service: BluetoothUUID
    public var characteristic: BluetoothUUID

    public init(_ service: BluetoothUUID, _ characteristic: BluetoothUUID) {
        self.service = service
        self.characteristic = characteristic
    }
}

/// What happens to a peripheral, in the order in which bluetoothd told of it: for one reader. It ends when the peripheral is
/// taken back, throws `bus-unavailable` when the bus has gone, and ends without an error when the reading task is cancelled.
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

/// An event of a ``Peripheral``.
public enum PeripheralEvent: Sendable {
    /// A device is connected: a central, or a peripheral to which a program on this machine has connected
    /// (``PeripheralConnection/opener``). The event comes before all other events of the connection.
    case connected(PeripheralConnection)
    /// A link has ended. This event comes after all other events of the connection.
    case disconnected(PeripheralConnection)
    /// A central turned notifications or indications on or off. bluetoothd does not report which central did this. Therefore the
    /// peripheral sends one event for each connected central. If a central connects while notifications or indications are on, the
    /// peripheral sends an event for this central, too.
    case subscribed(PeripheralConnection, LocalAttribute, on: Bool)
    case read(ReadRequest)
    case write(WriteRequest)
}

/// One connection between another device and this machine.
public struct PeripheralConnection: Sendable, Hashable {
    /// The number of this connection. A ``Peripheral`` counts its connections from 1.
    public let number: Int
    /// The address of the other device.
    public let central: BluetoothAddress
    /// The end that opened the link. A device with the opener ``LinkOpener/central`` may use the services of another program, because
    /// bluetoothd does not report the purpose of a link.
    public let opener: LinkOpener
}

/// Identifies a characteristic of a local service by two UUIDs.
public struct LocalAttribute: Sendable, Hashable {
    public var service: BluetoothUUID
    public var characteristic: BluetoothUUID

    public init(_ service: BluetoothUUID, _ characteristic: BluetoothUUID) {
        self.service = service
        self.characteristic = characteristic
    }
}

/// The events of a peripheral, in the order of bluetoothd's reports. Only one task may read them. The sequence ends when the peripheral
/// is closed or the reading task is cancelled. The sequence throws ``BlueZError/Code/busUnavailable`` when the bus connection ends.
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

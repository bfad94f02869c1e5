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

/// What a peripheral does with what comes. It is called once at a time, in the order in which bluetoothd told of it: writes to
/// several characteristics, reads, and the end of the connection behind all that came over it.
public protocol PeripheralHandler: Sendable {
    func connected(_ connection: PeripheralConnection) async
    func disconnected(_ connection: PeripheralConnection) async

    /// Notifications or indications were turned on or off. bluetoothd does not tell by which central: it is told of each that
    /// is connected, and of each that connects while they are on.
    func subscribed(_ connection: PeripheralConnection, to attribute: LocalAttribute, on: Bool) async

    /// - Returns: the value's bytes from `offset` on, 512 of them at most. A long value is read with rising offsets.
    func read(
        _ connection: PeripheralConnection, _ attribute: LocalAttribute, offset: Int
    ) async throws(AttributeError) -> [UInt8]

    /// A value of 512 bytes at most, from a write with response or without: bluetoothd does not tell which. Where a
    /// characteristic takes both, BlueZ 5.66 has answered the central already, and an error reaches nobody.
    func write(
        _ connection: PeripheralConnection, _ attribute: LocalAttribute, offset: Int, _ value: [UInt8]
    ) async throws(AttributeError)
}

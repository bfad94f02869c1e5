/// The source or destination of values: a GATT characteristic, identified by the UUIDs of its service and itself. A transport with
/// one pipe (UDP, serial) has one channel.
public struct Channel: Hashable, Sendable {
    public let service, characteristic: UInt128

    public init(service: UInt128, characteristic: UInt128) {
        self.service = service
        self.characteristic = characteristic
    }
}

/// Where values go to and come from: a GATT characteristic, named as GATT names it. A transport with one pipe (UDP, serial)
/// carries one channel.
public struct Channel: Hashable, Sendable {
    public let service, characteristic: UInt128

    public init(service: UInt128, characteristic: UInt128) {
        self.service = service
        self.characteristic = characteristic
    }
}

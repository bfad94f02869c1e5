/// The properties of a simulated Bluetooth LE connection: packets per connection event, intervals, losses and timeouts.
public struct RadioModel: Sendable, Equatable {
    /// The ATT MTU in bytes. The maximum length of a value is 3 bytes less, because each packet has an ATT header of 3 bytes. With the
    /// default, a value of 244 bytes fills one link-layer packet.
    public var mtu = 247
    /// The time from one connection event to the next. The default is the interval that a device requests (docs/ota-profile.md).
    public var interval: Duration = .milliseconds(15)
    /// The maximum number of link-layer packets in one connection event, in each direction.
    public var perEvent = 6
    /// The probability (0...1) that a connection event is lost. The link layer repeats the lost packets in the next event.
    public var loss = 0.0
    /// The time from the connection attempt until the link is ready. This time includes service discovery.
    public var connectTime: Duration = .milliseconds(200)
    /// The time limit of a connection attempt.
    public var connectTimeout: Duration = .seconds(10)
    /// The time from the last packet until the host and the device detect the loss of the link. Linux requests 420 ms by default.
    public var supervisionTimeout: Duration = .milliseconds(420)

    public init() {}

    /// The maximum length of a written or notified value in bytes.
    var maximumValueLength: Int { mtu - 3 }

    /// Returns the number of link-layer packets for a value of `length` bytes.
    ///
    /// A link-layer packet carries up to 251 bytes. The first packet of a value also contains the L2CAP header (4 bytes) and the ATT header
    /// (3 bytes). Each packet contains bytes of only one value.
    static func packets(forValueOf length: Int) -> Int { (length + 7 + 250) / 251 }

    /// Returns an upper bound for the throughput in one direction without loss, in bytes per second.
    ///
    /// The bound assumes that each packet carries 251 bytes. The headers of each value take 7 of these bytes. For example, values of 244
    /// bytes have a bound of 97,600 bytes/s with the default properties.
    ///
    /// - Parameter valueLength: the length of each value in bytes.
    public func bytesPerSecondBound(valueLength: Int) -> Double {
        let packets = Double(perEvent)
        let values = packets / Double(Self.packets(forValueOf: valueLength))
        return (packets * 251 - values * 7) / (interval / .seconds(1))
    }
}

/// The properties of a simulated Bluetooth LE connection: packets per connection event, intervals, losses and timeouts.
public struct RadioModel: Sendable, Equatable {
    /// The ATT MTU in bytes. The longest attribute value in a packet is 3 bytes shorter.
    public var mtu = 247
    /// The time between two connection events.
    public var interval: Duration = .milliseconds(15)
    /// The maximum number of link-layer packets in one connection event, for each direction.
    public var perEvent = 6
    /// The probability that a connection event is lost. The link layer retransmits its packets in the next event.
    public var loss = 0.0
    /// The time from the connection attempt until the link is ready, including service discovery.
    public var connectTime: Duration = .milliseconds(200)
    /// The time after which a connection attempt fails.
    public var connectTimeout: Duration = .seconds(10)
    /// The time from the last packet until both ends detect the loss of the link. Linux requests 420 ms.
    public var supervisionTimeout: Duration = .milliseconds(420)

    public init() {}

    /// The maximum length of a written or notified value, in bytes.
    var maximumValueLength: Int { mtu - 3 }

    /// Returns the number of link-layer packets for a value of `length` bytes.
    ///
    /// A packet carries up to 251 bytes. The first packet of a value also contains 7 bytes of L2CAP and ATT headers. Two values never share
    /// a packet.
    static func packets(forValueOf length: Int) -> Int { (length + 7 + 250) / 251 }

    /// Returns the maximum throughput in one direction without loss, in bytes per second.
    ///
    /// Each packet carries 251 bytes. Each value needs 7 of these bytes for its headers.
    ///
    /// - Parameter valueLength: the length of each value in bytes.
    public func bytesPerSecondBound(valueLength: Int) -> Double {
        let packets = Double(perEvent)
        let values = packets / Double(Self.packets(forValueOf: valueLength))
        return (packets * 251 - values * 7) / (interval / .seconds(1))
    }
}

/// A Bluetooth LE connection in figures: what passes in a connection event, and how often there is one.
public struct RadioModel: Sendable, Equatable {
    /// ATT MTU, in bytes; a value is at most 3 bytes shorter.
    public var mtu = 247
    /// Time between two connection events.
    public var interval: Duration = .milliseconds(15)
    /// Link-layer packets in a connection event, as many up as down.
    public var perEvent = 6
    /// Probability that a connection event is lost. Its packets wait for the next one: the link layer repeats.
    public var loss = 0.0
    /// Time from the attempt to the link, services discovered.
    public var connectTime: Duration = .milliseconds(200)
    /// Time after which an attempt is given up.
    public var connectTimeout: Duration = .seconds(10)
    /// Time from the last packet until both ends hold the link for lost; 420 ms is what Linux asks for.
    public var supervisionTimeout: Duration = .milliseconds(420)

    public init() {}

    /// Longest value of a write, a send or a notification, in bytes.
    var maximumValueLength: Int { mtu - 3 }

    /// Link-layer packets that a value of so many bytes needs: 251 bytes in each, 7 of them L2CAP and ATT headers in the
    /// first. Two values never share a packet.
    static func packets(forValueOf length: Int) -> Int { (length + 7 + 250) / 251 }

    /// Bytes per second that the link can carry in one direction without loss, in values of so many bytes: packets per
    /// event × 251 bytes less 7 for each value, per interval.
    public func bytesPerSecondBound(valueLength: Int) -> Double {
        let packets = Double(perEvent)
        let values = packets / Double(Self.packets(forValueOf: valueLength))
        return (packets * 251 - values * 7) / (interval / .seconds(1))
    }
}

public import OTATransport
public import OTAUpdate

/// The way to the device at the other end of a serial line: one packet of the console framing is one value of the one channel.
///
/// A link is there as soon as the port is open; whether anybody answers, only an answer shows.
public struct SerialTransport: Transport {
    private let address: SerialAddress
    private let channel: Channel

    /// - Parameter channel: what the packets are the values of.
    public init(_ address: SerialAddress, channel: Channel) {
        self.address = address
        self.channel = channel
    }

    /// - Throws: `noSuchDevice` where there is no such port, `inUse` where another program has it, `unavailable` where it is no
    ///   serial port or may not be opened.
    public func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result {
        let line = try SerialLine(SerialPort.open(address), name: address.path, release: SerialPort.release)
        let link = SingleChannelLink(line, channel: channel, maximumValueLength: ConsoleFraming.longestPacket)
        return await link.withForwarding(body)
    }
}

public import OTATransport
public import OTAUpdate

/// The transport over a serial line. It has one channel, and each packet of the console framing is one value of that channel.
///
/// The link opens as soon as the port is open. The first response shows whether a device is connected.
public struct SerialTransport: Transport {
    private let address: SerialAddress
    private let channel: Channel

    /// - Parameter channel: the channel of all packets.
    public init(_ address: SerialAddress, channel: Channel) {
        self.address = address
        self.channel = channel
    }

    /// Opens a link and runs `body` with it.
    ///
    /// - Throws: `noSuchDevice` if the port does not exist, `inUse` if another program uses it, `unavailable` if it is not a serial port or
    ///   cannot be opened.
    public func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result {
        let line = try SerialLine(SerialPort.open(address), name: address.path, release: SerialPort.release)
        let link = SingleChannelLink(line, channel: channel, maximumValueLength: ConsoleFraming.longestPacket)
        return await link.withForwarding(body)
    }
}

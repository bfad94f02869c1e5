public import OTATransport
public import OTAUpdate

/// The transport to one device over UDP. It has one channel, and each datagram is one value of that channel.
///
/// The link opens as soon as the host's name is resolved. The first response shows whether the device is reachable.
public struct UDPTransport: Transport {
    private let address: UDPAddress
    private let channel: Channel

    /// - Parameter channel: the channel of all datagrams.
    public init(_ address: UDPAddress, channel: Channel) {
        self.address = address
        self.channel = channel
    }

    /// Opens a link and runs `body` with it.
    ///
    /// - Throws: `noSuchDevice` if the host cannot be resolved or has no route, `unavailable` if the socket cannot be connected.
    public func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result {
        let socket = try await UDPSocket(connectedTo: address)
        let link = SingleChannelLink(socket, channel: channel, maximumValueLength: socket.maximumValueLength)
        return await link.withForwarding(body)
    }
}

public import OTATransport
public import OTAUpdate

/// The way to one device over UDP: one datagram is one value of the one channel.
///
/// A link is there as soon as the host's name has an address; whether anybody answers, only an answer shows.
public struct UDPTransport: Transport {
    private let address: UDPAddress
    private let channel: Channel

    /// - Parameter channel: what the datagrams are the values of.
    public init(_ address: UDPAddress, channel: Channel) {
        self.address = address
        self.channel = channel
    }

    /// - Throws: `noSuchDevice` where the host has no address, `unavailable` where there is no way to it.
    public func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result {
        let socket = try await UDPSocket(connectedTo: address)
        let link = SingleChannelLink(socket, channel: channel, maximumValueLength: socket.maximumValueLength)
        return await link.withForwarding(body)
    }
}

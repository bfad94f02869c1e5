import OTAEngine
import OTALinks
import OTATestSupport
import OTAUpdate
import Testing

@Suite("UDP transport") struct UDPTransportTests {
    static let channel = Channel(service: 1, characteristic: 2)

    /// The first two events of a link to this address, or the reason of its end.
    private static func twoEvents(
        of address: UDPAddress, sending value: [UInt8]
    ) async throws -> (events: [LinkEvent], end: LinkError?) {
        try await UDPTransport(address, channel: channel).withLink { link, events in
            link.submit(.subscribe(channel))
            link.submit(.send([value], channel))
            return await events.collect(2)
        }
    }

    @Test(
        "each datagram is one value in both directions, up to 1452 bytes, and an empty one is ignored",
        arguments: ["127.0.0.1", "::1", "localhost"])
    func aDatagramIsAValue(_ host: String) async throws {
        // The longest payload of an IPv6 packet of 1500 bytes, which needs no fragmentation.
        let value = (0..<1452).map { UInt8(truncatingIfNeeded: $0) }
        let listener = try await UDPListener(at: UDPAddress(host: host, port: 0))
        async let result = Self.twoEvents(of: UDPAddress(host: host, port: listener.port), sending: value)
        let (received, peer) = try #require(await listener.receive())
        #expect(received == value)
        await listener.send([], to: peer)
        await listener.send(received.reversed(), to: peer)
        #expect(try await result.events == [.subscribed(Self.channel), .notified(value.reversed(), Self.channel)])
    }

    @Test("a datagram from another sender than the device is ignored")
    func nobodyElseIsHeard() async throws {
        let device = try await UDPListener(at: UDPAddress(host: "127.0.0.1", port: 0))
        let stranger = try await UDPListener(at: UDPAddress(host: "127.0.0.1", port: 0))
        async let result = Self.twoEvents(of: UDPAddress(host: "127.0.0.1", port: device.port), sending: [1])
        let (_, peer) = try #require(await device.receive())
        await stranger.send([6, 6, 6], to: peer)
        await device.send([2], to: peer)
        #expect(try await result.events == [.subscribed(Self.channel), .notified([2], Self.channel)])
    }

    @Test("the link ends with no-such-device when the port is closed")
    func aRefusalIsTheLinksEnd() async throws {
        // A port that was just closed is not suitable: a starting process may still have it open and would receive the datagram.
        let nobody = UDPAddress(host: "127.0.0.1", port: 1)
        let (events, end) = try await Self.twoEvents(of: nobody, sending: [1])
        #expect(events == [.subscribed(Self.channel)])
        #expect(end?.code == .noSuchDevice)
        #expect(end?.detail == "no program listens on udp:127.0.0.1:1 (connection refused)")
    }

    @Test("a host name that does not exist is refused with no-such-device")
    func aHostThatDoesNotExist() async throws {
        // RFC 6761: a name under .invalid never resolves.
        let transport = UDPTransport(UDPAddress(host: "board.invalid"), channel: Self.channel)
        await #expect(throws: LinkError(.noSuchDevice, "")) { try await transport.withLink { _, _ in } }
    }

    @Test("the longest value is the payload of a packet without fragmentation: 1472 bytes on IPv4, 1452 on IPv6")
    func whatCarriesNoPieces() async throws {
        for (host, length) in [("127.0.0.1", 1472), ("::1", 1452)] {
            let properties = try await UDPTransport(UDPAddress(host: host), channel: Self.channel).withLink {
                link, _ in link.properties
            }
            #expect(properties.channels == [Self.channel] && properties.preservesMessageBoundaries)
            #expect(properties.maximumValueLength == length)
        }
    }
}

import OTATransport
import OTAUDP
import OTAUpdate
import Testing

@Suite struct UDPTransportTests {
    static let channel = Channel(service: 1, characteristic: 2)

    /// What a link to this address tells, up to the second event.
    private static func twoEvents(of address: UDPAddress, sending value: [UInt8]) async throws -> [LinkEvent] {
        try await UDPTransport(address, channel: channel).withLink { link in
            link.submit(.subscribe(channel))
            link.submit(.send([value], channel))
            var events: [LinkEvent] = []
            for await event in link.events {
                events.append(event)
                if events.count == 2 { break }
            }
            return events
        }
    }

    @Test(arguments: ["127.0.0.1", "::1", "localhost"])
    func aDatagramIsAValue(_ host: String) async throws {
        // The longest of an IPv6 packet without pieces.
        let value = (0..<1452).map { UInt8(truncatingIfNeeded: $0) }
        let listener = try await UDPListener(at: UDPAddress(host: host, port: 0))
        async let events = Self.twoEvents(of: UDPAddress(host: host, port: listener.port), sending: value)
        let (received, peer) = try #require(await listener.receive())
        #expect(received == value)
        await listener.send([], to: peer)
        await listener.send(received.reversed(), to: peer)
        #expect(try await events == [.subscribed(Self.channel), .notified(value.reversed(), Self.channel)])
    }

    @Test func nobodyElseIsHeard() async throws {
        let device = try await UDPListener(at: UDPAddress(host: "127.0.0.1", port: 0))
        let stranger = try await UDPListener(at: UDPAddress(host: "127.0.0.1", port: 0))
        async let events = Self.twoEvents(of: UDPAddress(host: "127.0.0.1", port: device.port), sending: [1])
        let (_, peer) = try #require(await device.receive())
        await stranger.send([6, 6, 6], to: peer)
        await device.send([2], to: peer)
        #expect(try await events == [.subscribed(Self.channel), .notified([2], Self.channel)])
    }

    @Test func aRefusalIsTheLinksEnd() async throws {
        // Not one that was just closed: a process that is being started may still have it open, and would take the datagram.
        let nobody = UDPAddress(host: "127.0.0.1", port: 1)
        let events = try await Self.twoEvents(of: nobody, sending: [1])
        #expect(events == [.subscribed(Self.channel), .lost(LinkError(.noSuchDevice, ""))])
        guard case .lost(let error) = events.last else { return }
        #expect(error.detail == "no program listens on udp:127.0.0.1:1 (connection refused)")
    }

    @Test func aHostThatDoesNotExist() async throws {
        // RFC 6761: never a name.
        let transport = UDPTransport(UDPAddress(host: "board.invalid"), channel: Self.channel)
        await #expect(throws: LinkError(.noSuchDevice, "")) { try await transport.withLink { _ in } }
    }

    @Test func whatCarriesNoPieces() async throws {
        for (host, length) in [("127.0.0.1", 1472), ("::1", 1452)] {
            let properties = try await UDPTransport(UDPAddress(host: host), channel: Self.channel).withLink {
                $0.properties
            }
            #expect(properties.channels == [Self.channel] && properties.preservesMessageBoundaries)
            #expect(properties.maximumValueLength == length)
        }
    }
}

import OTAEngine
import OTALinks
import Testing

@Suite("UDP device addresses") struct UDPAddressTests {
    @Test(
        "a UDP address has a host, and port 1337 by default",
        arguments: [
            ("192.168.1.5", "192.168.1.5", 1337), ("192.168.1.5:1", "192.168.1.5", 1),
            ("board.local:65535", "board.local", 65535),
            ("[::1]", "::1", 1337), ("[fe80::1%eth0]:1338", "fe80::1%eth0", 1338),
        ])
    func addresses(_ text: String, _ host: String, _ port: UInt16) throws {
        let address = try UDPAddress(parsing: text)
        #expect(address == UDPAddress(host: host, port: port))
        #expect(try UDPAddress(parsing: address.description) == address)
    }

    @Test(
        "a malformed UDP address is refused",
        arguments: [
            "", ":1337", "host:", "host:0", "host:65536", "host:+1", "host:1337x", "[::1", "[]:1337", "[::1]1337",
            "[host]:1",
            "a b", "host/path", "host?mtu=1", "user@host", "\u{604}", "bücher.example",
        ])
    func others(_ text: String) { #expect(throws: AddressError.self) { try UDPAddress(parsing: text) } }

    @Test("the hint for an IPv6 address without brackets adds the brackets")
    func bracketsAreToldOf() throws {
        let error = #expect(throws: AddressError.self) { try UDPAddress(parsing: "fe80::1") }
        #expect(error?.hint == "use --device 'udp:[fe80::1]'")
    }
}

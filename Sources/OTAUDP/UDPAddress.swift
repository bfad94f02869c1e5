public import OTATransport

/// The part of a device address after `udp:`. It is `HOST` or `HOST:PORT`, where HOST is a name, an IPv4 address, or an IPv6 address
/// in brackets.
public struct UDPAddress: Sendable, Hashable {
    /// The port of MCUmgr over UDP in Zephyr's default configuration.
    public static let defaultPort: UInt16 = 1337

    /// The host's name or IP address, without brackets.
    public let host: String
    public let port: UInt16

    public init(host: String, port: UInt16 = defaultPort) {
        self.host = host
        self.port = port
    }

    public init(parsing text: some StringProtocol) throws(AddressError) {
        let text = String(text)
        let rest: Substring
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]"), text.index(after: text.startIndex) < end else {
                throw Self.error("an IPv6 address stands in brackets, and '\(text)' has not both")
            }
            host = String(text[text.index(after: text.startIndex)..<end])
            guard host.contains(":") else { throw Self.error("in the brackets of '\(text)' there is no IPv6 address") }
            rest = text[text.index(after: end)...]
        } else {
            guard text.count(where: { $0 == ":" }) < 2 else {
                throw AddressError(
                    "'\(text)' may be an IPv6 address, which has to stand in brackets",
                    hint: "type --device 'udp:[\(text)]'")
            }
            let end = text.firstIndex(of: ":") ?? text.endIndex
            host = String(text[..<end])
            rest = text[end...]
        }
        guard !host.isEmpty, !host.contains(where: { $0.isWhitespace || "/?&@".contains($0) }) else {
            throw Self.error("behind udp: stands a host, and '\(host)' is none")
        }
        port = try Self.port(rest, of: text)
    }

    private static func port(_ text: Substring, of address: String) throws(AddressError) -> UInt16 {
        if text.isEmpty { return defaultPort }
        let digits = text.dropFirst()
        let isNumber =
            !digits.isEmpty && digits.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard text.hasPrefix(":"), isNumber, let port = UInt16(digits), port > 0 else {
            throw error("behind the host of '\(address)' stands a colon and a port from 1 to 65535")
        }
        return port
    }

    private static func error(_ context: String) -> AddressError {
        AddressError(
            context, hint: "type --device udp:192.168.1.5, or --device udp:HOST:PORT; else the port is \(defaultPort)")
    }
}

extension UDPAddress: CustomStringConvertible {
    /// The address as text with the port, without `udp:`.
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

import Glibc
public import OTAEngine
import OTAUpdate

/// The part of a device address after `udp:`. The format is `HOST` or `HOST:PORT`. HOST is a name, an IPv4 address, or an IPv6 address in
/// brackets.
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
                throw Self.error("'\(text)' is not an IPv6 address in brackets (example: udp:[fe80::1])")
            }
            host = String(text[text.index(after: text.startIndex)..<end])
            guard host.contains(":") else {
                throw Self.error("the brackets of '\(text)' do not contain an IPv6 address")
            }
            rest = text[text.index(after: end)...]
        } else {
            guard text.count(where: { $0 == ":" }) < 2 else {
                throw AddressError(
                    "'\(text)' contains more than one colon; an IPv6 address must be in brackets",
                    hint: "use --device 'udp:[\(text)]'")
            }
            let end = text.firstIndex(of: ":") ?? text.endIndex
            host = String(text[..<end])
            rest = text[end...]
        }
        // The system's resolver does not find a name with other characters. Some of them also combine with the colon before the port.
        guard !host.isEmpty, host.utf8.allSatisfy({ 0x21...0x7E ~= $0 }), !host.contains(where: "/?&@".contains) else {
            throw Self.error("'\(host)' is not a host (example: udp:192.168.1.5)")
        }
        port = try Self.port(rest, of: text)
    }

    private static func port(_ text: Substring, of address: String) throws(AddressError) -> UInt16 {
        if text.isEmpty { return defaultPort }
        let digits = text.dropFirst()
        let isNumber =
            !digits.isEmpty && digits.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        guard text.hasPrefix(":"), isNumber, let port = UInt16(digits), port > 0 else {
            throw error("the text after the host of '\(address)' is not a colon and a port from 1 to 65535")
        }
        return port
    }

    private static func error(_ context: String) -> AddressError {
        AddressError(
            context, hint: "use --device udp:HOST or --device udp:HOST:PORT; the default port is \(defaultPort)")
    }
}

extension UDPAddress: CustomStringConvertible {
    /// The address as text with the port, without `udp:`.
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

/// The address of a datagram socket, stored as the bytes of a `sockaddr`.
package struct SocketAddress: Sendable, Hashable {
    let bytes: [UInt8]

    init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    var family: CInt { CInt(withPointer { pointer, _ in pointer?.pointee.sa_family ?? 0 }) }

    /// The port. IPv4 and IPv6 addresses both contain the port at byte offset 2, as 2 bytes in big-endian order.
    var port: UInt16 { bytes.count < 4 ? 0 : UInt16(bytes[2]) << 8 | UInt16(bytes[3]) }

    /// Returns all socket addresses of a host. The IPv4 addresses come first, because a device with a small IP stack may support only
    /// IPv4. The function blocks the thread during a DNS query.
    ///
    /// - Throws: `noSuchDevice` if the host cannot be resolved.
    static func all(of address: UDPAddress) throws(LinkError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_DGRAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var first: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(address.host, String(address.port), &hints, &first)
        guard status == 0 else {
            let reason = gai_strerror(status).map { String(cString: $0) } ?? "error \(status)"
            throw LinkError(.noSuchDevice, "cannot resolve the host \(address.host): \(reason)")
        }
        defer { freeaddrinfo(first) }
        var found: [SocketAddress] = []
        var next = first
        while let entry = next?.pointee {
            found.append(SocketAddress(UnsafeRawBufferPointer(start: entry.ai_addr, count: Int(entry.ai_addrlen))))
            next = entry.ai_next
        }
        return found.filter { $0.family == AF_INET } + found.filter { $0.family != AF_INET }
    }

    /// Returns the local address of an open socket; nil if the system call fails.
    static func local(of socket: CInt) -> SocketAddress? {
        var bytes = [UInt8](repeating: 0, count: MemoryLayout<sockaddr_storage>.size)
        var length = socklen_t(bytes.count)
        let status = bytes.withUnsafeMutableBytes {
            getsockname(socket, $0.baseAddress?.assumingMemoryBound(to: sockaddr.self), &length)
        }
        return status == 0 ? SocketAddress(bytes.prefix(Int(length))) : nil
    }

    func withPointer<Result>(_ body: (UnsafePointer<sockaddr>?, socklen_t) -> Result) -> Result {
        bytes.withUnsafeBytes { body($0.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count)) }
    }
}

import Glibc
import OTAUpdate

/// The address of a datagram socket, stored as a `sockaddr`.
package struct SocketAddress: Sendable, Hashable {
    let bytes: [UInt8]

    init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    var family: CInt { CInt(withPointer { pointer, _ in pointer?.pointee.sa_family ?? 0 }) }

    /// The port. IPv4 and IPv6 store it at the same offset, big-endian.
    var port: UInt16 { bytes.count < 4 ? 0 : UInt16(bytes[2]) << 8 | UInt16(bytes[3]) }

    /// Returns all addresses of a host. IPv4 comes before IPv6, because devices with a small IP stack support IPv4. The call blocks during
    /// a DNS query.
    ///
    /// - Throws: `noSuchDevice`.
    static func all(of address: UDPAddress) throws(LinkError) -> [SocketAddress] {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_DGRAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var first: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(address.host, String(address.port), &hints, &first)
        guard status == 0 else {
            let reason = gai_strerror(status).map { String(cString: $0) } ?? "error \(status)"
            throw LinkError(.noSuchDevice, "the host \(address.host) has no address: \(reason)")
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

    /// Returns the local address of an open socket.
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

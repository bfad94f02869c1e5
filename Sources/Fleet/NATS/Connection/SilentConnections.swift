import Glibc

/// Ends connections to a server that does not answer a login.
///
/// libnats before 3.8 waits without a limit for the answer to a login, and stores 1 MB per second meanwhile
/// (https://github.com/nats-io/nats.c/pull/707). It also waits without a limit for the TLS handshake. It holds its lock during this time, and
/// has no function that returns the socket. Therefore this type finds the socket among the descriptors of the process.
struct SilentConnections {
    /// The time between two searches.
    let period: Duration
    /// The maximum time without data from the server. A connection whose pings are answered, or that the library still counts as intact, is
    /// silent for a shorter time.
    private let limit: Duration
    private let ports: Set<UInt16>
    /// The numbers of the connections that the last search found. After this process was stopped for a while, its connections seem to be
    /// silent, but they are not in the next search.
    private var found: Set<ino_t> = []

    init(_ options: NATSOptions) {
        period = max(options.connectTimeout, options.pingInterval)
        limit = period * 4
        ports = Set(options.servers.compactMap { ServerInformation.endpoint(of: $0).flatMap { UInt16($0.port) } })
    }

    /// Ends the TCP connections of this process to a port of the servers, if they have received no data for the limit, also in the last
    /// search.
    mutating func end() {
        guard let folder = opendir("/proc/self/fd") else { return }
        defer { closedir(folder) }
        var silent: Set<ino_t> = []
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            guard let descriptor = CInt(name), let number = silentConnection(descriptor) else { continue }
            silent.insert(number)
            guard found.contains(number) else { continue }
            // Another thread can close a descriptor and open it again as another file. The copy stays the same file. Only sockets are
            // copied: the end of a copy of another file would release the locks of this process on the file.
            let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
            guard copy >= 0 else { continue }
            if silentConnection(copy) == number { shutdown(copy, CInt(SHUT_RDWR)) }
            close(copy)
        }
        found = silent
    }

    /// Returns the number of the socket; nil if the descriptor is not a silent connection to a port of the servers.
    private func silentConnection(_ descriptor: CInt) -> ino_t? {
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK,
            let port = Self.remotePort(of: descriptor), ports.contains(port), isSilent(descriptor)
        else { return nil }
        return status.st_ino
    }

    private func isSilent(_ socket: CInt) -> Bool {
        var (information, length) = (tcp_info(), socklen_t(MemoryLayout<tcp_info>.size))
        return getsockopt(socket, CInt(IPPROTO_TCP), TCP_INFO, &information, &length) == 0
            && Duration.milliseconds(information.tcpi_last_data_recv) > limit
    }

    /// Returns the port of the other side; nil if the descriptor is not a connected IP socket.
    private static func remotePort(of socket: CInt) -> UInt16? {
        var (address, length) = (sockaddr_in6(), socklen_t(MemoryLayout<sockaddr_in6>.size))
        let status = withUnsafeMutableBytes(of: &address) {
            getpeername(socket, $0.baseAddress?.assumingMemoryBound(to: sockaddr.self), &length)
        }
        // The port has the same place in the addresses of IPv4 and IPv6.
        guard status == 0, [AF_INET, AF_INET6].contains(CInt(address.sin6_family)) else { return nil }
        return UInt16(bigEndian: address.sin6_port)
    }
}

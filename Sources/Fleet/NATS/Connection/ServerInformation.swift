import DescriptorIO
import FoundationEssentials
import Glibc

/// The information that a NATS server sends to each new connection, before the login and without encryption.
public struct ServerInformation: Sendable, Equatable {
    public let version: String
    /// The name of the server's cluster; nil if the server does not belong to a cluster.
    public let cluster: String?
    public let hasJetStream: Bool
    /// The maximum size of a message, in bytes.
    public let maximumPayload: Int

    /// The maximum length of the line `INFO`, in bytes.
    private static let limit = 32_768

    /// Connects to a server and reads its information.
    ///
    /// - Parameters:
    ///   - address: such as `nats://HOST:PORT`.
    ///   - timeout: the maximum time for the connection, and for each read.
    /// - Throws: `invalidArguments`, `connectionFailed`, `protocolError`.
    public static func read(
        from address: String, timeout: Duration = .seconds(5)
    ) async throws(NATSError) -> ServerInformation {
        guard let (host, port) = endpoint(of: address) else {
            throw NATSError(.invalidArguments, "'\(address)' is not the address of a NATS server")
        }
        let thread: LoopThread
        do throws(DescriptorError) { thread = try LoopThread() } catch {
            throw NATSError(.resourcesExhausted, "no thread for a connection", cause: error.description)
        }
        let line = await thread.run {
            Result { () throws(NATSError) in try receive(host, port, timeout) }
        }
        return try ServerInformation(parsing: line.get())
    }

    /// Reads a line `INFO {…}`.
    package init(parsing line: [UInt8]) throws(NATSError) {
        struct Information: Decodable {
            var version: String
            var cluster: String?
            var jetstream: Bool?
            var max_payload: Int
        }
        guard line.starts(with: Array("INFO ".utf8)) else { throw .malformed("line INFO") }
        let found = try JetStreamJSON.decode(Information.self, Array(line.dropFirst(5)), "INFO")
        guard found.max_payload >= 0 else { throw .malformed("max_payload in the line INFO") }
        (version, cluster) = (found.version, found.cluster.flatMap { $0.isEmpty ? nil : $0 })
        (hasJetStream, maximumPayload) = (found.jetstream ?? false, found.max_payload)
    }

    /// Returns the host and the port of an address. The default port is 4222.
    package static func endpoint(of address: String) -> (host: String, port: String)? {
        guard let scheme = address.firstRange(of: "://") else { return nil }
        var rest = address[scheme.upperBound...]
        if let at = rest.lastIndex(of: "@") { rest = rest[rest.index(after: at)...] }
        rest = rest.prefix { $0 != "/" }
        if rest.hasPrefix("["), let end = rest.firstIndex(of: "]") {
            let (host, port) = (rest[..<end].dropFirst(), rest[rest.index(after: end)...].dropFirst())
            return host.isEmpty ? nil : (String(host), port.isEmpty ? "4222" : String(port))
        }
        let parts = rest.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let host = parts.first, !host.isEmpty else { return nil }
        return (String(host), parts.count == 2 && !parts[1].isEmpty ? String(parts[1]) : "4222")
    }

    private static func receive(_ host: String, _ port: String, _ timeout: Duration) throws(NATSError) -> [UInt8] {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let what = "cannot connect to \(host):\(port)"
        guard getaddrinfo(host, port, &hints, &list) == 0 else {
            throw NATSError(.connectionFailed, what, cause: "the host is not known")
        }
        defer { freeaddrinfo(list) }
        var failure = ECONNREFUSED
        var next = list
        while let entry = next {
            next = entry.pointee.ai_next
            let kind = entry.pointee.ai_socktype | CInt(SOCK_CLOEXEC.rawValue)
            let number = socket(entry.pointee.ai_family, kind, entry.pointee.ai_protocol)
            guard number >= 0 else { throw failed(what, errno) }
            defer { close(number) }
            // connect(2) also observes SO_SNDTIMEO.
            var limit = timeval(tv_sec: Int(max(1, timeout.components.seconds)), tv_usec: 0)
            for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
                setsockopt(number, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
            }
            guard connect(number, entry.pointee.ai_addr, entry.pointee.ai_addrlen) == 0 else {
                failure = errno
                continue
            }
            return try line(from: number, what)
        }
        throw failed(what, failure)
    }

    private static func failed(_ what: String, _ number: CInt) -> NATSError {
        NATSError(.connectionFailed, what, cause: strerror(number).map { String(cString: $0) })
    }

    private static func line(from number: CInt, _ what: String) throws(NATSError) -> [UInt8] {
        var line: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 4_096)
        while line.count < limit {
            let count = recv(number, &piece, piece.count, 0)
            guard count > 0 else { throw failed(what, count == 0 ? ECONNRESET : errno) }
            line += piece[..<count]
            if let end = line.firstIndex(of: 0x0A) { return Array(line[..<end]) }
        }
        throw NATSError.malformed("line INFO")
    }
}

internal import Glibc
internal import OTAFirmware

/// A connection to an SSH agent over its Unix socket. Each connection is for exactly one request.
struct AgentConnection: ~Copyable {
    enum Failure: Error {
        /// The agent cannot be reached, or the connection failed. The value is the `errno` of the failed system call.
        case system(CInt)
        /// The path of the socket does not fit into the system's address structure (`sockaddr_un`).
        case pathTooLong
        /// The agent did not answer within the time limit.
        case timeout
        /// The agent closed the connection before the end of its answer.
        case closed
        /// The agent announced an answer with this number of bytes, which is more than `AgentMessage.maximumLength`.
        case tooLong(UInt32)
    }

    private let socket: CInt
    private let deadline: ContinuousClock.Instant

    /// Connects to the agent.
    ///
    /// - Parameters:
    ///   - path: the path of the socket.
    ///   - limit: the time limit for the connection, the request and the answer together.
    init(to path: String, limit: Duration) throws(Failure) {
        deadline = .now + limit
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        socket = Glibc.socket(AF_UNIX, type, 0)
        guard socket >= 0 else { throw .system(errno) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let isWhole = withUnsafeMutableBytes(of: &address.sun_path) { place in
            guard path.utf8.count < place.count else { return false }
            place.copyBytes(from: path.utf8)
            return true
        }
        guard isWhole else { throw .pathTooLong }
        while true {
            let status = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    connect(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            if status == 0 { break }
            // On a Unix socket, EAGAIN means that too many connections wait for the agent. poll(2) cannot wait until the agent accepts one
            // of them, so try again after 10 ms.
            guard errno == EAGAIN || errno == EINTR else { throw .system(errno) }
            guard ContinuousClock.now < deadline else { throw .timeout }
            usleep(10_000)
        }
    }

    deinit { if socket >= 0 { close(socket) } }

    /// Sends a request and returns the answer.
    consuming func answer(to request: [UInt8]) throws(Failure) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(UInt32(clamping: request.count), .bigEndian)
        writer.write(request)
        try send(writer.bytes)
        var header = ByteReader(try receive(4))
        guard let length = try? header.read(UInt32.self, .bigEndian) else { throw .closed }
        guard length <= AgentMessage.maximumLength else { throw .tooLong(length) }
        return try receive(Int(length))
    }

    private func send(_ bytes: [UInt8]) throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else {
                try wait(for: POLLOUT)
            }
        }
    }

    private func receive(_ count: Int) throws(Failure) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: min(count, 16 << 10))
        while bytes.count < count {
            let received = recv(socket, &buffer, min(buffer.count, count - bytes.count), 0)
            guard received != 0 else { throw .closed }
            if received > 0 {
                bytes += buffer.prefix(received)
            } else {
                try wait(for: POLLIN)
            }
        }
        return bytes
    }

    /// Waits until the socket is ready. Call this method directly after `send` or `recv` failed, because this method reads `errno`.
    ///
    /// Throws `timeout` at the deadline. Throws `closed` or `system` if `send` or `recv` failed for a reason other than EAGAIN and EINTR.
    private func wait(for event: CInt) throws(Failure) {
        guard errno != ECONNRESET, errno != EPIPE else { throw .closed }
        guard errno == EAGAIN || errno == EINTR else { throw .system(errno) }
        var place = pollfd(fd: socket, events: Int16(event), revents: 0)
        let rest = ContinuousClock.now.duration(to: deadline)
        guard rest > .zero else { throw .timeout }
        // The division rounds down, so add one millisecond. Without the added millisecond, a remaining time below 1 ms would become a
        // timeout of 0, and poll(2) would not wait.
        let (seconds, attoseconds) = rest.components
        _ = poll(&place, 1, CInt(clamping: seconds * 1000 + attoseconds / 1_000_000_000_000_000 + 1))
    }
}

import DescriptorIO
import Glibc

/// A socket that keeps packets apart (SOCK_SEQPACKET), such as those a service hands out to spare its clients the bus. It lives
/// on a connection's thread and waits there, so that sending needs no hop per packet.
public actor PacketSocket {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    /// -1 once closed.
    private var descriptor: CInt
    private var scratch: [UInt8] = []
    private static let longestPacket = 1 << 16

    /// Takes the descriptor over. Throws `socketClosed` when it was taken before, and `socketFailed`.
    public init(_ owner: DBusFileDescriptor, on executor: DBusExecutor) throws(DBusError) {
        guard let descriptor = owner.take() else { throw .socketIsClosed }
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0 else {
            let reason = errno
            _ = Glibc.close(descriptor)
            throw .socket(reason)
        }
        self.descriptor = descriptor
        self.executor = executor
    }

    deinit {
        if descriptor >= 0 { _ = Glibc.close(descriptor) }
    }

    /// Two connected sockets: one to use, one to give away. Throws `socketFailed`.
    public static func pair(on executor: DBusExecutor) throws(DBusError) -> (PacketSocket, DBusFileDescriptor) {
        let type = CInt(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw .socket(errno) }
        let other = DBusFileDescriptor(adopting: ends[1])
        return (try PacketSocket(DBusFileDescriptor(adopting: ends[0]), on: executor), other)
    }

    /// What is sent or awaited meanwhile throws `socketClosed`. May be called more than once.
    public func close() {
        guard descriptor >= 0 else { return }
        executor.loop.endWaits(on: descriptor)
        _ = Glibc.close(descriptor)
        descriptor = -1
    }

    /// Sends the packets in this order, each whole, waiting while the socket is full. One caller at a time, or the packets of
    /// two mingle. Throws `socketClosed`, `socketFailed` and `cancelled`: then the first of them may have been sent.
    public func send(_ packets: [[UInt8]]) async throws(DBusError) {
        for packet in packets {
            while true {
                guard descriptor >= 0 else { throw .socketIsClosed }
                let sent = packet.withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
                }
                if sent >= 0 { break }
                try await waitForReadiness(errno, waitingFor: POLLOUT)
            }
        }
    }

    /// Whether the other end has taken every packet that was sent. Throws `socketClosed` and `socketFailed`.
    public var isDrained: Bool {
        get throws(DBusError) {
            guard descriptor >= 0 else { throw .socketIsClosed }
            var entry = pollfd(fd: descriptor, events: 0, revents: 0)
            if poll(&entry, 1, 0) > 0, CInt(entry.revents) & POLLHUP != 0 { throw .socketIsClosed }
            // SIOCOUTQ: the memory of all packets on their way, in bytes.
            var waiting: CInt = 0
            guard ioctl(descriptor, UInt(TIOCOUTQ), &waiting) == 0 else { throw .socket(errno) }
            return waiting == 0
        }
    }

    /// Waits until `isDrained`; as no event tells, by looking every millisecond. Throws `cancelled` as well.
    public func waitUntilDrained() async throws(DBusError) {
        while try !isDrained {
            do { try await Task.sleep(for: .milliseconds(1)) } catch { throw .taskCancelled }
        }
    }

    /// The packets that are there, a handful at most; waits for the first. None when the other end was closed.
    func receive() async throws(DBusError) -> [[UInt8]] {
        if scratch.isEmpty { scratch = Array(repeating: 0, count: Self.longestPacket) }
        var packets: [[UInt8]] = []
        while packets.count < 32 {
            guard descriptor >= 0 else { throw .socketIsClosed }
            // MSG_TRUNC: the packet's own length, however much of it there is room for.
            let count = recv(descriptor, &scratch, scratch.count, CInt(MSG_TRUNC))
            if count > scratch.count {
                throw DBusError(.socketFailed, "a packet of \(count) bytes came, and \(scratch.count) are the most")
            } else if count > 0 {
                packets.append(Array(scratch[..<count]))
            } else if count == 0 {
                // An empty packet, or the end.
                guard try hasOtherEnd else { return packets }
                packets.append([])
            } else if packets.isEmpty {
                try await waitForReadiness(errno, waitingFor: POLLIN)
            } else {
                break
            }
        }
        return packets
    }

    private var hasOtherEnd: Bool {
        get throws(DBusError) {
            var entry = pollfd(fd: descriptor, events: 0, revents: 0)
            guard poll(&entry, 1, 0) >= 0 else { throw .socket(errno) }
            return CInt(entry.revents) & POLLHUP == 0
        }
    }

    /// Returns when the same can be tried again.
    private func waitForReadiness(_ reason: CInt, waitingFor events: CInt) async throws(DBusError) {
        switch reason {
        case EINTR: return
        case EAGAIN:
            do throws(DescriptorError) { try await executor.loop.wait(for: events, on: descriptor) } catch {
                throw DBusError(error)
            }
        case EPIPE, ECONNRESET, ENOTCONN: throw .socketIsClosed
        default: throw .socket(reason)
        }
    }
}

extension DBusError {
    fileprivate static var socketIsClosed: DBusError { DBusError(.socketClosed, "the socket is closed") }
    fileprivate static func socket(_ reason: CInt) -> DBusError {
        DBusError(.socketFailed, DescriptorError.text(of: reason))
    }
}

import DescriptorIO
import Glibc

/// A socket that keeps packet boundaries (SOCK_SEQPACKET). A service can give such a socket to a client, so that the data
/// bypasses the bus. The socket runs on a connection's thread; sending needs no thread switch per packet.
public actor PacketSocket {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    /// The descriptor; -1 after `close`.
    private var descriptor: CInt
    private var scratch: [UInt8] = []
    private static let longestPacket = 1 << 16

    /// Takes ownership of the descriptor. Throws `socketClosed` if it already has another owner or is closed, and
    /// `socketFailed`.
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

    /// Creates two connected sockets: one for this program and one for another program. Throws `socketFailed`.
    public static func pair(on executor: DBusExecutor) throws(DBusError) -> (PacketSocket, DBusFileDescriptor) {
        let type = CInt(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw .socket(errno) }
        let other = DBusFileDescriptor(adopting: ends[1])
        return (try PacketSocket(DBusFileDescriptor(adopting: ends[0]), on: executor), other)
    }

    /// Closes the socket. Pending sends and receives throw `socketClosed`. May be called more than once.
    public func close() {
        guard descriptor >= 0 else { return }
        executor.loop.endWaits(on: descriptor)
        _ = Glibc.close(descriptor)
        descriptor = -1
    }

    /// Sends the packets in this order, each as a whole, and waits while the socket is full. Only one caller may send at a
    /// time; otherwise the packets of two callers mix. Throws `socketClosed`, `socketFailed` and `cancelled`. After an
    /// error, the first packets may have been sent.
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

    /// Whether the other end has received every sent packet. Throws `socketClosed` and `socketFailed`.
    public var isDrained: Bool {
        get throws(DBusError) {
            guard descriptor >= 0 else { throw .socketIsClosed }
            var entry = pollfd(fd: descriptor, events: 0, revents: 0)
            if poll(&entry, 1, 0) > 0, CInt(entry.revents) & POLLHUP != 0 { throw .socketIsClosed }
            // SIOCOUTQ returns the memory of all unreceived packets, in bytes.
            var waiting: CInt = 0
            guard ioctl(descriptor, UInt(TIOCOUTQ), &waiting) == 0 else { throw .socket(errno) }
            return waiting == 0
        }
    }

    /// Waits until `isDrained`. It polls every millisecond, because no event reports this state. Also throws `cancelled`.
    public func waitUntilDrained() async throws(DBusError) {
        while try !isDrained {
            do { try await Task.sleep(for: .milliseconds(1)) } catch { throw .taskCancelled }
        }
    }

    /// Returns the available packets (a small number at most) and waits for the first. The result is empty if the other end
    /// was closed.
    func receive() async throws(DBusError) -> [[UInt8]] {
        if scratch.isEmpty { scratch = Array(repeating: 0, count: Self.longestPacket) }
        var packets: [[UInt8]] = []
        while packets.count < 32 {
            guard descriptor >= 0 else { throw .socketIsClosed }
            // With MSG_TRUNC, `recv` returns the packet's full length, even if the buffer is smaller.
            let count = recv(descriptor, &scratch, scratch.count, CInt(MSG_TRUNC))
            if count > scratch.count {
                throw DBusError(.socketFailed, "received a packet of \(count) bytes; the maximum is \(scratch.count)")
            } else if count > 0 {
                packets.append(Array(scratch[..<count]))
            } else if count == 0 {
                // An empty packet, or the end of the stream.
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

    /// Waits until the caller can try the same operation again.
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

extension PacketSocket {
    /// The received packets, for one reader. Only a few packets are read ahead of the reader, so the socket's flow control
    /// limits the sender. The sequence ends when either end is closed or the reading task is cancelled. It throws
    /// `socketFailed`.
    public nonisolated var packets: PacketSequence { PacketSequence(socket: self) }
}

public struct PacketSequence: AsyncSequence, Sendable {
    let socket: PacketSocket

    public func makeAsyncIterator() -> Iterator { Iterator(socket: socket) }

    public struct Iterator: AsyncIteratorProtocol {
        let socket: PacketSocket
        private var received: ArraySlice<[UInt8]> = []

        init(socket: PacketSocket) { self.socket = socket }

        public mutating func next() async throws(DBusError) -> [UInt8]? { try await next(isolation: #isolation) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(DBusError) -> [UInt8]? {
            if received.isEmpty {
                do throws(DBusError) { received = try await socket.receive()[...] } catch {
                    guard error.code == .socketClosed || error.code == .cancelled else { throw error }
                    return nil
                }
            }
            return received.popFirst()
        }
    }
}

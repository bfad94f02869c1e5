import DescriptorIO
import Glibc

/// A socket that keeps the boundaries of packets (SOCK_SEQPACKET).
///
/// A D-Bus service and its client can exchange packets over a pair of such sockets, without the bus. For example, BlueZ sends GATT
/// notifications over such a socket. A packet socket runs on the thread of a ``DBusConnection``. An actor on the same thread
/// (``DBusExecutor``) sends packets without a thread switch.
public actor PacketSocket {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    private let descriptor: LoopDescriptor
    private var scratch: [UInt8] = []
    private static let longestPacket = 1 << 16

    /// Takes the descriptor from `owner`. Throws `socketClosed` if the descriptor was already transferred or closed, and
    /// `socketFailed` if a system call fails.
    public init(_ owner: DBusFileDescriptor, on executor: DBusExecutor) throws(DBusError) {
        guard let descriptor = owner.take() else { throw .socketIsClosed }
        do throws(DescriptorError) {
            self.descriptor = try LoopDescriptor(adopting: descriptor, on: executor.loop)
        } catch {
            throw .socket(error)
        }
        self.executor = executor
    }

    /// Creates two connected sockets: one for this program, and one as a descriptor for another program. Throws
    /// `socketFailed`.
    public static func pair(on executor: DBusExecutor) throws(DBusError) -> (PacketSocket, DBusFileDescriptor) {
        let type = CInt(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw .socket(.system("socketpair failed", errno)) }
        let other = DBusFileDescriptor(adopting: ends[1])
        return (try PacketSocket(DBusFileDescriptor(adopting: ends[0]), on: executor), other)
    }

    /// Closes the socket. A pending `send` throws `socketClosed`, and the sequence `packets` ends. A second call has no
    /// effect.
    public func close() { descriptor.close() }

    /// Sends the packets in order, and waits while the socket is full. Only one task may send at a time. If two tasks sent at the same
    /// time, their packets would be mixed.
    ///
    /// Throws `socketClosed`, `socketFailed` and `cancelled`. If `send` throws, some packets may already have been sent.
    public func send(_ packets: [[UInt8]]) async throws(DBusError) {
        for packet in packets {
            do throws(DescriptorError) {
                _ = try await descriptor.retry("send failed", waitingFor: POLLOUT) { descriptor in
                    packet.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
                }
            } catch {
                throw .socket(error)
            }
        }
    }

    /// Whether the other end has received every sent packet. Throws `socketClosed` and `socketFailed`.
    public var isDrained: Bool {
        get throws(DBusError) {
            guard try hasOtherEnd else { throw .socketIsClosed }
            // The request TIOCOUTQ (its name for sockets is SIOCOUTQ) returns the memory in bytes of all packets that the other end has
            // not received. The result is 0 if no such packet is left.
            var waiting: CInt = 0
            guard ioctl(try number, UInt(TIOCOUTQ), &waiting) == 0 else {
                throw .socket(.system("ioctl failed", errno))
            }
            return waiting == 0
        }
    }

    /// Waits until the other end has received every sent packet. Throws `socketClosed`, `socketFailed` and `cancelled`.
    ///
    /// This method reads `isDrained` every millisecond, because the kernel does not report when the other end has received a packet.
    public func waitUntilDrained() async throws(DBusError) {
        while try !isDrained {
            do { try await Task.sleep(for: .milliseconds(1)) } catch { throw .taskCancelled }
        }
    }

    /// Waits for a packet, and then returns all packets that have arrived, at most 32. Returns an empty array if the other end was
    /// closed. Throws `socketClosed`, `socketFailed` and `cancelled`.
    func receive() async throws(DBusError) -> [[UInt8]] {
        if scratch.isEmpty { scratch = Array(repeating: 0, count: Self.longestPacket) }
        var packets: [[UInt8]] = []
        var next: Int?
        do throws(DescriptorError) {
            next = try await descriptor.retry("receive failed", waitingFor: POLLIN) { receivePacket(from: $0) }
        } catch {
            throw .socket(error)
        }
        while let count = next {
            guard count <= scratch.count else {
                throw DBusError(.socketFailed, "received a packet of \(count) bytes; the maximum is \(scratch.count)")
            }
            // recv returns 0 in two cases: for an empty packet, and after the other end was closed.
            if count == 0, try !hasOtherEnd { return packets }
            packets.append(Array(scratch[..<count]))
            // Ignore an error here, so that the caller gets the packets that are already in `packets`.
            next = packets.count < 32 ? try? descriptor.attempt("receive failed") { receivePacket(from: $0) } : nil
        }
        return packets
    }

    /// Receives a packet into `scratch` and returns the length of the packet in bytes. Because of MSG_TRUNC, recv returns
    /// the full length even if the packet does not fit into `scratch`.
    private func receivePacket(from descriptor: CInt) -> Int {
        recv(descriptor, &scratch, scratch.count, CInt(MSG_TRUNC))
    }

    private var hasOtherEnd: Bool {
        get throws(DBusError) {
            var entry = pollfd(fd: try number, events: 0, revents: 0)
            guard poll(&entry, 1, 0) >= 0 else { throw .socket(.system("poll failed", errno)) }
            return CInt(entry.revents) & POLLHUP == 0
        }
    }

    private var number: CInt {
        get throws(DBusError) {
            do throws(DescriptorError) { return try descriptor.value } catch { throw .socket(error) }
        }
    }
}

extension DBusError {
    fileprivate static var socketIsClosed: DBusError { DBusError(.socketClosed, "the socket is closed") }

    fileprivate static func socket(_ error: DescriptorError) -> DBusError {
        switch error {
        case .closed, .system(_, EPIPE), .system(_, ECONNRESET), .system(_, ENOTCONN): .socketIsClosed
        case .cancelled: .taskCancelled
        case .system(_, let reason): DBusError(.socketFailed, DescriptorError.text(of: reason))
        }
    }
}

extension PacketSocket {
    /// The received packets. Only one task may read the sequence.
    ///
    /// If the task reads slowly, the socket becomes full, and the sender must wait, because the sequence buffers at most 32 packets. The
    /// sequence ends when either end is closed or the reading task is cancelled. The sequence throws `socketFailed` if a system call
    /// fails or a packet is longer than 64 KiB.
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

import DescriptorIO
import Glibc
package import OTAUpdate

/// The device's datagram socket. It receives datagrams from any sender.
package actor UDPListener {
    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }

    /// The port that the socket is bound to.
    package nonisolated let port: UInt16
    private let thread: LoopThread
    /// The socket; -1 after `close()`.
    private var descriptor: CInt
    private var scratch = [UInt8](repeating: 0, count: 1 << 16)

    /// Opens a socket.
    ///
    /// - Parameter address: an address of this machine; port 0 selects any free port.
    /// - Throws: `noSuchDevice` if the host cannot be resolved, `unavailable` if the socket cannot be bound.
    package init(at address: UDPAddress) async throws(LinkError) {
        let thread: LoopThread
        do throws(DescriptorError) { thread = try LoopThread() } catch {
            throw LinkError(.unavailable, error.description)
        }
        let opened = await thread.run { Result { () throws(LinkError) in try Self.open(address) } }
        (descriptor, port) = try opened.get()
        self.thread = thread
    }

    private static func open(_ address: UDPAddress) throws(LinkError) -> (CInt, UInt16) {
        var reason: CInt = 0
        for place in try SocketAddress.all(of: address) {
            let type = CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
            let socket = Glibc.socket(place.family, type, 0)
            if socket >= 0, place.withPointer({ bind(socket, $0, $1) }) == 0 {
                return (socket, SocketAddress.local(of: socket)?.port ?? address.port)
            }
            reason = errno
            if socket >= 0 { _ = Glibc.close(socket) }
        }
        throw LinkError(.unavailable, "cannot listen at udp:\(address): \(DescriptorError.text(of: reason))")
    }

    deinit {
        if descriptor >= 0 { _ = Glibc.close(descriptor) }
    }

    /// Closes the socket. A pending `receive()` returns nil.
    package func close() {
        guard descriptor >= 0 else { return }
        thread.loop.endWaits(on: descriptor)
        _ = Glibc.close(descriptor)
        descriptor = -1
    }

    /// Waits for the next datagram and returns it with its sender. Returns nil if the socket was closed or the task was cancelled.
    package func receive() async -> (value: [UInt8], peer: SocketAddress)? {
        while descriptor >= 0 {
            var peer = [UInt8](repeating: 0, count: MemoryLayout<sockaddr_storage>.size)
            var length = socklen_t(peer.count)
            let count = peer.withUnsafeMutableBytes { name in
                let name = name.baseAddress?.assumingMemoryBound(to: sockaddr.self)
                return recvfrom(descriptor, &scratch, scratch.count, 0, name, &length)
            }
            if count >= 0 { return (Array(scratch[..<count]), SocketAddress(peer.prefix(Int(length)))) }
            // ECONNREFUSED means that one peer is gone. The listener continues for the others.
            if errno == EAGAIN {
                do throws(DescriptorError) { try await thread.loop.wait(for: POLLIN, on: descriptor) } catch {
                    return nil
                }
            } else if errno != EINTR, errno != ECONNREFUSED {
                return nil
            }
        }
        return nil
    }

    /// Sends a datagram. If the socket's buffer is full, the datagram is lost, as it could be in the network.
    package func send(_ value: [UInt8], to peer: SocketAddress) {
        guard descriptor >= 0 else { return }
        _ = peer.withPointer { sendto(descriptor, value, value.count, 0, $0, $1) }
    }
}

import DescriptorIO
import Glibc
package import OTAUpdate

/// The datagram socket of a virtual device. It receives datagrams from any sender.
package actor UDPListener {
    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }

    /// The UDP port of the socket.
    package nonisolated let port: UInt16
    private let thread: LoopThread
    private let descriptor: LoopDescriptor
    private var scratch = [UInt8](repeating: 0, count: 1 << 16)

    /// Opens a socket and binds the socket to an address.
    ///
    /// - Parameter address: an address of this computer. Port 0 selects any free port.
    /// - Throws: `noSuchDevice` if the host cannot be resolved or is another computer, `unavailable` if the socket cannot be bound.
    package init(at address: UDPAddress) async throws(LinkError) {
        let thread: LoopThread
        do throws(DescriptorError) { thread = try LoopThread() } catch {
            throw LinkError(.unavailable, error.description)
        }
        let opened = await thread.run { Result { () throws(LinkError) in try Self.open(address) } }
        let (socket, port) = try opened.get()
        do throws(DescriptorError) { descriptor = try LoopDescriptor(adopting: socket, on: thread.loop) } catch {
            throw LinkError(.unavailable, error.description)
        }
        self.port = port
        self.thread = thread
    }

    private static func open(_ address: UDPAddress) throws(LinkError) -> (CInt, UInt16) {
        var reason: CInt = 0
        for place in try SocketAddress.all(of: address) {
            let type = CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue)
            let socket = Glibc.socket(place.family, type, 0)
            if socket >= 0, place.withPointer({ bind(socket, $0, $1) }) == 0 {
                return (socket, SocketAddress.local(of: socket)?.port ?? address.port)
            }
            reason = errno
            if socket >= 0 { _ = Glibc.close(socket) }
        }
        throw LinkError(
            reason == EADDRNOTAVAIL ? .noSuchDevice : .unavailable,
            "cannot listen on udp:\(address): \(DescriptorError.text(of: reason))")
    }

    /// Closes the socket. A pending `receive()` returns nil.
    package func close() { descriptor.close() }

    /// Waits for the next datagram. Returns the datagram and the address of its sender; nil if the socket was closed, the task was
    /// cancelled, or a system call failed.
    package func receive() async -> (value: [UInt8], peer: SocketAddress)? {
        while true {
            var peer = [UInt8](repeating: 0, count: MemoryLayout<sockaddr_storage>.size)
            var length = socklen_t(peer.count)
            do throws(DescriptorError) {
                let count = try await descriptor.retry("receive failed", waitingFor: POLLIN) { descriptor in
                    peer.withUnsafeMutableBytes { name in
                        let name = name.baseAddress?.assumingMemoryBound(to: sockaddr.self)
                        return recvfrom(descriptor, &scratch, scratch.count, 0, name, &length)
                    }
                }
                return (Array(scratch[..<count]), SocketAddress(peer.prefix(Int(length))))
            } catch {
                // The error ECONNREFUSED means that one sender has closed its port. Ignore this error, because other senders may still use
                // the listener.
                guard case .system(_, ECONNREFUSED) = error else { return nil }
            }
        }
    }

    /// Sends a datagram. If the socket's buffer is full, the datagram is lost without an error. The network can also lose the datagram.
    package func send(_ value: [UInt8], to peer: SocketAddress) {
        guard let descriptor = try? descriptor.value else { return }
        _ = peer.withPointer { sendto(descriptor, value, value.count, 0, $0, $1) }
    }
}

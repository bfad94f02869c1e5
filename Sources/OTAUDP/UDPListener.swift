import DescriptorIO
import Glibc
package import OTAUpdate

/// The device's end: a datagram socket that takes what anybody sends to its port.
package actor UDPListener {
    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }

    /// The port it listens at.
    package nonisolated let port: UInt16
    private let thread: LoopThread
    /// -1 once closed.
    private var descriptor: CInt
    private var scratch = [UInt8](repeating: 0, count: 1 << 16)

    /// - Parameter address: of this machine; port 0 stands for any that is free.
    /// - Throws: `noSuchDevice` where the host has no address, `unavailable` where it cannot be listened at.
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

    /// Whoever receives meanwhile gets nil.
    package func close() {
        guard descriptor >= 0 else { return }
        thread.loop.endWaits(on: descriptor)
        _ = Glibc.close(descriptor)
        descriptor = -1
    }

    /// The next datagram and who sent it; nil: closed, or the task was cancelled.
    package func receive() async -> (value: [UInt8], peer: SocketAddress)? {
        while descriptor >= 0 {
            var peer = [UInt8](repeating: 0, count: MemoryLayout<sockaddr_storage>.size)
            var length = socklen_t(peer.count)
            let count = peer.withUnsafeMutableBytes { name in
                let name = name.baseAddress?.assumingMemoryBound(to: sockaddr.self)
                return recvfrom(descriptor, &scratch, scratch.count, 0, name, &length)
            }
            if count >= 0 { return (Array(scratch[..<count]), SocketAddress(peer.prefix(Int(length)))) }
            // A peer that is gone shows as an error here, and is no matter.
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

    /// A datagram for which there is no room is dropped, as anywhere on its way.
    package func send(_ value: [UInt8], to peer: SocketAddress) {
        guard descriptor >= 0 else { return }
        _ = peer.withPointer { sendto(descriptor, value, value.count, 0, $0, $1) }
    }
}

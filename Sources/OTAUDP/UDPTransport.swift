import DescriptorIO
import Glibc
public import OTATransport
public import OTAUpdate

/// The transport to one device over UDP. It has one channel, and each datagram is one value of that channel.
///
/// The link opens as soon as the host's name is resolved. The first response shows whether the device is reachable.
public struct UDPTransport: Transport {
    private let address: UDPAddress
    private let channel: Channel

    /// - Parameter channel: the channel of all datagrams.
    public init(_ address: UDPAddress, channel: Channel) {
        self.address = address
        self.channel = channel
    }

    /// Opens a link and runs it until it ends.
    ///
    /// - Throws: `noSuchDevice` if the host cannot be resolved or has no route, `unavailable` if the socket cannot be connected.
    public func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
        let socket = try await UDPSocket(connectedTo: address)
        let link = SingleChannelLink(
            socket, channel: channel, maximumValueLength: socket.maximumValueLength, receive: receive)
        return await link.run(opened: opened)
    }
}

/// A connected datagram socket. The kernel accepts datagrams only from the peer, and reports when the peer's port is closed.
private struct UDPSocket: ValuePipe {
    private let address: UDPAddress
    private let descriptor: OpenDescriptor
    let maximumValueLength: Int

    /// - Throws: `noSuchDevice`, `unavailable`.
    init(connectedTo address: UDPAddress) async throws(LinkError) {
        let thread: LoopThread
        do throws(DescriptorError) { thread = try LoopThread() } catch { throw Self.failure(error, address) }
        // A DNS query blocks the thread. This is safe, because no other code uses the new thread yet.
        let opened = await thread.run { Result { () throws(LinkError) in try Self.open(address) } }
        let (socket, family) = try opened.get()
        do throws(DescriptorError) {
            descriptor = try OpenDescriptor(adopting: socket, on: thread)
        } catch {
            throw Self.failure(error, address)
        }
        self.address = address
        // The payload of an Ethernet frame has 1500 bytes. It includes an IP header of 20 bytes (IPv4) or 40 bytes (IPv6), and a UDP
        // header of 8 bytes. A longer datagram is fragmented, and the whole datagram is lost if one fragment is lost.
        maximumValueLength = 1500 - (family == AF_INET ? 20 : 40) - 8
    }

    private static func open(_ address: UDPAddress) throws(LinkError) -> (socket: CInt, family: CInt) {
        var reason: CInt = 0
        for place in try SocketAddress.all(of: address) {
            let socket = Glibc.socket(place.family, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            if socket >= 0, place.withPointer({ Glibc.connect(socket, $0, $1) }) == 0 { return (socket, place.family) }
            reason = errno
            if socket >= 0 { _ = Glibc.close(socket) }
        }
        throw failure(.system("cannot connect", reason), address)
    }

    /// Converts an error of the socket to an error of the link.
    private static func failure(_ error: DescriptorError, _ address: UDPAddress) -> LinkError {
        switch error {
        case .system(_, ECONNREFUSED):
            LinkError(.noSuchDevice, "no program listens on udp:\(address) (connection refused)")
        case .system(_, EHOSTUNREACH): LinkError(.noSuchDevice, "udp:\(address) is not reachable (no route to host)")
        case .system: LinkError(.unavailable, "udp:\(address): \(error)")
        case .cancelled, .closed: LinkError(.lost, error.description)
        }
    }

    // MARK: - ValuePipe

    func send(_ value: [UInt8]) async throws(LinkError) {
        do throws(DescriptorError) { try await descriptor.write(value) } catch { throw Self.failure(error, address) }
    }

    func receive() async throws(LinkError) -> [UInt8] {
        while true {
            do throws(DescriptorError) {
                let value = try await descriptor.read()
                // An empty datagram contains no packet, and it is not the end of the data.
                if !value.isEmpty { return value }
            } catch {
                throw Self.failure(error, address)
            }
        }
    }

    func close() async { await descriptor.close() }
}

import DescriptorIO
import Glibc
public import OTAEngine
public import OTAUpdate

/// The transport to one device over UDP. It has one channel. Each datagram is one value of that channel.
///
/// The link opens as soon as the host's name is resolved, because UDP has no connection setup. An open link does not show that the device
/// is reachable. Only a response from the device shows this.
public struct UDPTransport: Transport {
    private let address: UDPAddress
    private let channel: Channel

    /// Creates a transport to the device at `address`.
    ///
    /// - Parameter channel: the channel of all datagrams.
    public init(_ address: UDPAddress, channel: Channel) {
        self.address = address
        self.channel = channel
    }

    /// Opens a link and runs the link until the link ends.
    ///
    /// - Throws: `noSuchDevice` if the host cannot be resolved or the kernel reports that the host is unreachable, `unavailable`
    ///   if the socket cannot be connected for another reason.
    public func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
        let socket = try await UDPSocket(connectedTo: address)
        let link = SingleChannelLink(
            socket, channel: channel, maximumValueLength: socket.maximumValueLength, receive: receive)
        return await link.run(opened: opened)
    }
}

/// A datagram socket that is connected to one peer. The kernel discards datagrams from other senders, and reports an error if the peer's
/// port is closed.
private struct UDPSocket: ValuePipe {
    private let address: UDPAddress
    private let descriptor: OpenDescriptor
    let maximumValueLength: Int

    /// Opens a socket and connects the socket to the first address of the host that connect(2) accepts.
    ///
    /// - Throws: `noSuchDevice` if the host cannot be resolved or the kernel reports that the host is unreachable, `unavailable`
    ///   if the socket cannot be connected for another reason.
    init(connectedTo address: UDPAddress) async throws(LinkError) {
        let thread: LoopThread
        do throws(DescriptorError) { thread = try LoopThread() } catch { throw Self.failure(error, address) }
        // `open` blocks the thread during a DNS query. The wait delays no other code, because no other code uses the new thread
        // yet.
        let opened = await thread.run { Result { () throws(LinkError) in try Self.open(address) } }
        let (socket, family) = try opened.get()
        do throws(DescriptorError) {
            descriptor = try OpenDescriptor(adopting: socket, on: thread)
        } catch {
            throw Self.failure(error, address)
        }
        self.address = address
        // A datagram should fit into one Ethernet frame, which contains 1500 bytes: the IP header (IPv4: 20 bytes, IPv6: 40 bytes), the
        // UDP header (8 bytes) and the value. The network splits a longer datagram into fragments. If one fragment is lost, the whole
        // datagram is lost.
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
                // Ignore an empty datagram. It contains no packet, and it does not mean the end of the data.
                if !value.isEmpty { return value }
            } catch {
                throw Self.failure(error, address)
            }
        }
    }

    func close() async { await descriptor.close() }
}

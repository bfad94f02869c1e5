import DescriptorIO
import Glibc
import OTATransport
import OTAUpdate

/// A datagram socket that is connected: the kernel lets nothing in but what its peer sends, and tells when the peer refuses.
struct UDPSocket: ValuePipe {
    private let address: UDPAddress
    private let descriptor: OpenDescriptor
    let maximumValueLength: Int

    /// - Throws: `noSuchDevice`, `unavailable`.
    init(connectedTo address: UDPAddress) async throws(LinkError) {
        let thread: LoopThread
        do throws(DescriptorError) { thread = try LoopThread() } catch { throw Self.failure(error, address) }
        // Asking a name server blocks, and on this thread nobody waits yet.
        let opened = await thread.run { Result { () throws(LinkError) in try Self.open(address) } }
        let (socket, family) = try opened.get()
        do throws(DescriptorError) {
            descriptor = try OpenDescriptor(adopting: socket, on: thread)
        } catch {
            throw Self.failure(error, address)
        }
        self.address = address
        // Bytes that an Ethernet frame of 1500 bytes carries whole, less 20 or 40 of IP and 8 of UDP. A larger datagram would
        // go in pieces, and the loss of one would be the loss of all.
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
        throw failure(.system("there is no way to it", reason), address)
    }

    /// The one place where the system's errors become the link's.
    private static func failure(_ error: DescriptorError, _ address: UDPAddress) -> LinkError {
        switch error {
        case .system(_, ECONNREFUSED):
            LinkError(.noSuchDevice, "nothing listens at udp:\(address) (connection refused)")
        case .system(_, EHOSTUNREACH): LinkError(.noSuchDevice, "nobody is at udp:\(address) (no route to host)")
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
                // An empty datagram says nothing, and ends nothing.
                if !value.isEmpty { return value }
            } catch {
                throw Self.failure(error, address)
            }
        }
    }

    func close() async { await descriptor.close() }
}

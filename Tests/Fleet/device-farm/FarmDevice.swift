import Glibc
import OTACommands
import OTASimulator
import OTAUpdate
import SystemPackage

/// A virtual SMP device with a UDP socket on the loopback interface. Only the thread of the farm uses it.
final class FarmDevice: @unchecked Sendable {
    let device: VirtualSMPDevice
    let socket: CInt
    let port: UInt16
    /// The time at which the device must be polled; nil if no poll is planned.
    var pollTime: Duration?
    /// The number of boots of the crashing image.
    private(set) var crashes = 0
    private let crashing: String?
    private let isStranger: Bool
    private var peers = Peers<Peer>()

    struct Peer: Hashable, Sendable {
        let address: in_addr_t
        let port: in_port_t
    }

    /// - Parameters:
    ///   - crashing: the version of an image that crashes at its start; nil: none.
    ///   - isStranger: true for a device that answers each chunk with an offset after the end of each image.
    init(_ device: VirtualSMPDevice, crashing: String?, isStranger: Bool) throws {
        self.device = device
        self.crashing = crashing
        self.isStranger = isStranger
        let type = CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let descriptor = Glibc.socket(AF_INET, type, 0)
        socket = descriptor
        guard descriptor >= 0 else { throw Errno(rawValue: errno) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = INADDR_LOOPBACK.bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard isBound else { throw Errno(rawValue: errno) }
        port = address.sin_port.bigEndian
        device.observe { [unowned self] connection, _, value in
            send(isStranger ? Self.wrong(value) : value, to: connection)
            return true
        } onRestart: {
        }
    }

    /// Returns an answer to the command 1 (upload) of the group 1 (image) with a wrong offset, and every other packet unchanged.
    private static func wrong(_ packet: [UInt8]) -> [UInt8] {
        guard packet.count >= 8, packet[0] & 7 == 3, packet[4] == 0, packet[5] == 1, packet[7] == 1 else {
            return packet
        }
        // The map {"off": 0xFFFFFFFF} in CBOR.
        let body: [UInt8] = [0xA1, 0x63] + Array("off".utf8) + [0x1A, 0xFF, 0xFF, 0xFF, 0xFF]
        return [packet[0], packet[1], 0, UInt8(body.count)] + packet[4..<8] + body
    }

    /// Receives all waiting datagrams, and passes them to the device.
    func receive(_ buffer: UnsafeMutableRawBufferPointer, at now: Duration) {
        while true {
            var address = sockaddr_in()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let count = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    recvfrom(socket, buffer.baseAddress, buffer.count, 0, $0, &length)
                }
            }
            // ECONNREFUSED means that a gateway has closed its port, for example because it was killed.
            if count < 0, errno == ECONNREFUSED || errno == EINTR { continue }
            guard count >= 0 else { return }
            pass(Array(buffer.prefix(count)), from: Peer(address: address.sin_addr.s_addr, port: address.sin_port), now)
        }
    }

    private func pass(_ value: [UInt8], from peer: Peer, _ now: Duration) {
        let (connection, replaced) = peers.number(of: peer)
        if let replaced { device.disconnect(replaced, at: now) }
        if !device.isConnected(connection) {
            // During a restart of the device, `connect` fails, and the value is discarded.
            guard device.connect(connection, valueLength: 1500, at: now) else { return }
            try? device.subscribe(connection, to: device.dataChannel, on: true, at: now)
        }
        try? device.write(connection, device.dataChannel, value, at: now)
    }

    private func send(_ value: [UInt8], to connection: UInt16) {
        guard let peer = peers.peer(connection) else { return }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = peer.address
        address.sin_port = peer.port
        let length = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(socket, value, value.count, 0, $0, length)
            }
        }
    }

    /// Runs the work of the device that is due.
    ///
    /// - Returns: the time of the next poll; nil if none is needed before the next datagram.
    func poll(at now: Duration) -> Duration? {
        let due = device.poll(at: now)
        guard let crashing, let running = device.running, running.isOnTrial, running.image.version == crashing else {
            return due
        }
        crashes += 1
        device.losePower(at: now)
        return device.poll(at: now)
    }

    /// The counters of the device as a JSON object.
    var json: String {
        let counters = device.counters
        let version = device.running?.image.version ?? "none"
        let isOnTrial = device.bootState?.trial == .running
        return """
            {"port":\(port),"version":"\(version)","trial":\(isOnTrial),"confirmations":\(counters.confirmations),\
            "uploads":\(counters.uploads),"accepted_bytes":\(counters.acceptedBytes),"refused_bytes":\(counters.refusedBytes),\
            "restarts":\(device.restartCount),"crashes":\(crashes),"overflows":\(device.overflowCount)}
            """
    }
}

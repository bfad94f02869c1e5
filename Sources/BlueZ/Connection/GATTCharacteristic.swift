package import DBus

/// A service of a connected device.
public struct GATTService: Sendable, Hashable {
    public let uuid: BluetoothUUID
    public let isPrimary: Bool
    public let characteristics: [GATTCharacteristic]
}

/// A characteristic of a connected device.
public struct GATTCharacteristic: Sendable, Hashable {
    /// The operations that the characteristic properties permit (Core Specification, Vol 3, Part G, 3.3.1.1).
    public enum Operation: String, Sendable, CaseIterable {
        case read
        case write
        case writeWithoutResponse = "write-without-response"
        case notify
        case indicate
    }

    package let path: DBusObjectPath
    public let uuid: BluetoothUUID
    public let service: BluetoothUUID
    public let operations: Set<Operation>
}

extension BlueZObjectTree {
    /// Returns the attribute table of a device, in the order of its handles.
    package func table(of device: DBusObjectPath) -> [GATTService] {
        services(of: device).map { service in
            GATTService(
                uuid: service.uuid, isPrimary: service.isPrimary,
                characteristics: characteristics(of: service.path).map { characteristic in
                    GATTCharacteristic(
                        path: characteristic.path, uuid: characteristic.uuid, service: service.uuid,
                        operations: Set(characteristic.flags.compactMap { GATTCharacteristic.Operation(rawValue: $0) }))
                })
        }
    }

    /// The MTU in bytes. Nil if bluetoothd does not report it. Every characteristic reports the same value: the MTU of the
    /// link.
    package func mtu(of device: DBusObjectPath) -> Int? {
        services(of: device).flatMap { characteristics(of: $0.path) }.lazy.compactMap(\.mtu).first
    }
}

/// The notifications of a characteristic, in order, for one reader. The sequence ends with the link, with the subscription,
/// or when the reading task is cancelled.
public struct Notifications: AsyncSequence, Sendable {
    enum Source: Sendable {
        /// A socket. Each packet is one notification.
        case socket(PacketSocket)
        /// Signals on the bus. bluetoothd also sends such a signal after it has read the characteristic.
        case signals(AsyncStream<[UInt8]>)
    }
    let source: Source

    public func makeAsyncIterator() -> Iterator {
        switch source {
        case .socket(let socket): Iterator(packets: socket.packets.makeAsyncIterator(), signals: nil)
        case .signals(let signals): Iterator(packets: nil, signals: signals.makeAsyncIterator())
        }
    }

    public struct Iterator: AsyncIteratorProtocol {
        var packets: PacketSequence.Iterator?
        var signals: AsyncStream<[UInt8]>.Iterator?

        public mutating func next() async -> [UInt8]? { await next(isolation: #isolation) }

        public mutating func next(isolation actor: isolated (any Actor)?) async -> [UInt8]? {
            // A socket error ends the link, which is reported elsewhere.
            if packets != nil { return try? await packets?.next(isolation: actor) }
            return await signals?.next(isolation: actor)
        }
    }
}

/// A socket to bluetoothd that turns each packet into one write without response. This is the fastest way to write: no
/// value needs a bus message or a reply. While the socket is open, bluetoothd refuses every other write to the
/// characteristic.
///
/// The socket has no flow control. bluetoothd accepts all values into an unbounded queue and discards the queue without an
/// error when the link ends. Only the device can report how many values it has received.
public struct AcquiredWriter: Sendable {
    private let socket: PacketSocket
    /// The maximum length of a value in bytes. Longer values would be lost without an error. It is MTU − 3 and at most 512,
    /// the size of bluetoothd's buffer and the limit of an attribute.
    public let maximumLength: Int

    init(_ socket: PacketSocket, maximumLength: Int) {
        self.socket = socket
        self.maximumLength = maximumLength
    }

    /// Writes the values in this order. Throws ``BlueZError/Code/invalidLength`` (nothing is written in this case) and
    /// ``BlueZError/Code/disconnected``.
    public func write(_ values: [[UInt8]]) async throws(BlueZError) {
        guard values.allSatisfy({ $0.count <= maximumLength }) else {
            throw BlueZError(.invalidLength, "a value is longer than the maximum of this link (\(maximumLength) bytes)")
        }
        do throws(DBusError) { try await socket.send(values) } catch { throw BlueZError(error, "write") }
    }

    /// Waits until bluetoothd has received all values. Requests that follow reach the device after these values: bluetoothd
    /// sends its queue in order, commands before requests.
    public func waitUntilDrained() async throws(BlueZError) {
        do throws(DBusError) { try await socket.waitUntilDrained() } catch { throw BlueZError(error, "write") }
    }

    func close() async { await socket.close() }
}

package import DBus

/// A service of a connected device.
public struct GATTService: Sendable, Hashable {
    public let uuid: BluetoothUUID
    public let isPrimary: Bool
    public let characteristics: [GATTCharacteristic]
}

/// A characteristic of a connected device.
public struct GATTCharacteristic: Sendable, Hashable {
    /// An operation that the characteristic properties permit (Core Specification, Vol 3, Part G, 3.3.1.1).
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
    /// Returns the services of a device with their characteristics, in the order of the attribute handles.
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

    /// Returns the MTU of the link in bytes; nil if bluetoothd does not report the MTU. All characteristics of a device report the same
    /// MTU.
    package func mtu(of device: DBusObjectPath) -> Int? {
        services(of: device).flatMap { characteristics(of: $0.path) }.lazy.compactMap(\.mtu).first
    }
}

/// The values that a characteristic notifies or indicates, in order. Only one task may read them. The sequence ends when the link or
/// the subscription ends, or when the reading task is cancelled.
public struct Notifications: AsyncSequence, Sendable {
    enum Source: Sendable {
        /// A socket in which each packet is one notification.
        case socket(PacketSocket)
        /// D-Bus signals. bluetoothd sends the same signal for a value that a program has read from the characteristic, so the sequence
        /// can also contain read values.
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
            // A socket error ends the sequence, too. The caller gets the reason from `DeviceConnection.waitForEnd`.
            if packets != nil { return try? await packets?.next(isolation: actor) }
            return await signals?.next(isolation: actor)
        }
    }
}

/// A socket to bluetoothd for writes without response. bluetoothd sends each packet of the socket as one write. This is the fastest
/// way to write, because a value needs no D-Bus message and no reply. While the socket is open, bluetoothd refuses every other write
/// to the characteristic.
///
/// The socket has no flow control: bluetoothd accepts all values into a queue without limit. When the link ends, bluetoothd
/// discards the queue without an error. Therefore only the device knows which values have arrived.
public struct AcquiredWriter: Sendable {
    private let socket: PacketSocket
    /// The maximum length of a value in bytes: MTU − 3, and at most 512. The limit 512 is the size of bluetoothd's buffer and the
    /// maximum length of an attribute value. A longer value would be lost without an error.
    public let maximumLength: Int

    init(_ socket: PacketSocket, maximumLength: Int) {
        self.socket = socket
        self.maximumLength = maximumLength
    }

    /// Writes the values in this order. Throws ``BlueZError/Code/invalidLength`` before the first write if a value is longer than
    /// `maximumLength`. Throws ``BlueZError/Code/disconnected`` and ``BlueZError/Code/cancelled``.
    public func write(_ values: [[UInt8]]) async throws(BlueZError) {
        guard values.allSatisfy({ $0.count <= maximumLength }) else {
            throw BlueZError(.invalidLength, "a value is longer than the maximum of this link (\(maximumLength) bytes)")
        }
        do throws(DBusError) { try await socket.send(values) } catch { throw BlueZError(error, "write") }
    }

    /// Waits until bluetoothd has read all values from the socket. A later request, such as a read, then reaches the device after
    /// these values, because bluetoothd sends queued writes without response before queued requests.
    public func waitUntilDrained() async throws(BlueZError) {
        do throws(DBusError) { try await socket.waitUntilDrained() } catch { throw BlueZError(error, "write") }
    }

    /// Closes the socket. bluetoothd accepts other writes to the characteristic a moment later.
    package func close() async { await socket.close() }
}

import DBus

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

    /// Writes the values in this order. Throws `invalid-length` (nothing is written in this case) and `disconnected`.
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

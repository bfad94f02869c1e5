import DBus

/// A socket into bluetoothd that turns each packet into one write without response: the fast way, with neither a message on the
/// bus nor an answer for each. While it is open bluetoothd refuses every other write to the characteristic.
///
/// Neither bluetoothd nor the socket holds the sender back: bluetoothd takes all it can into a queue without bound, and loses
/// that queue in silence when the link goes. How far the device has come only the device can tell.
public struct AcquiredWriter: Sendable {
    private let socket: PacketSocket
    /// Bytes: a longer value is lost in silence. MTU − 3, and at most 512, bluetoothd's buffer and an attribute's limit.
    public let maximumLength: Int

    init(_ socket: PacketSocket, maximumLength: Int) {
        self.socket = socket
        self.maximumLength = maximumLength
    }

    /// Writes the values in this order. Throws `invalid-length`, with nothing written, and `disconnected`.
    public func write(_ values: [[UInt8]]) async throws(BlueZError) {
        guard values.allSatisfy({ $0.count <= maximumLength }) else {
            throw BlueZError(.invalidLength, "a value is longer than the link carries, \(maximumLength) bytes")
        }
        do throws(DBusError) { try await socket.send(values) } catch { throw BlueZError(error, "write") }
    }

    /// Waits until bluetoothd has taken all. What is asked of the device from then on, it gets behind these writes: bluetoothd
    /// sends what it has queued in order, commands before requests.
    public func waitUntilDrained() async throws(BlueZError) {
        do throws(DBusError) { try await socket.waitUntilDrained() } catch { throw BlueZError(error, "write") }
    }

    func close() async { await socket.close() }
}

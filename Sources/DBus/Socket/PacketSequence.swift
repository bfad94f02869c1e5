extension PacketSocket {
    /// The received packets, for one reader. Only a few packets are read ahead of the reader, so the socket's flow control
    /// limits the sender. The sequence ends when either end is closed or the reading task is cancelled. It throws
    /// `socketFailed`.
    public nonisolated var packets: PacketSequence { PacketSequence(socket: self) }
}

public struct PacketSequence: AsyncSequence, Sendable {
    let socket: PacketSocket

    public func makeAsyncIterator() -> Iterator { Iterator(socket: socket) }

    public struct Iterator: AsyncIteratorProtocol {
        let socket: PacketSocket
        private var received: ArraySlice<[UInt8]> = []

        init(socket: PacketSocket) { self.socket = socket }

        public mutating func next() async throws(DBusError) -> [UInt8]? { try await next(isolation: #isolation) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(DBusError) -> [UInt8]? {
            if received.isEmpty {
                do throws(DBusError) { received = try await socket.receive()[...] } catch {
                    guard error.code == .socketClosed || error.code == .cancelled else { throw error }
                    return nil
                }
            }
            return received.popFirst()
        }
    }
}

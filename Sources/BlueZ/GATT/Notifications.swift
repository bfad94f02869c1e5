import DBus

/// What a characteristic notifies, in order, for one reader. It ends with the link, with the subscription, or when the reading
/// task is cancelled.
public struct Notifications: AsyncSequence, Sendable {
    enum Source: Sendable {
        /// One packet for each notification.
        case socket(PacketSocket)
        /// Signals on the bus. bluetoothd tells so, too, what it has read of the characteristic.
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
            // A socket that fails ends the link, which is told elsewhere.
            if packets != nil { return try? await packets?.next(isolation: actor) }
            return await signals?.next(isolation: actor)
        }
    }
}

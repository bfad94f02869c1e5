import DBus

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

/// The peers of a device over a transport without connections, such as UDP. Each sender gets a connection number.
package struct Callers<Peer: Hashable & Sendable>: Sendable {
    /// The maximum number of peers.
    package static var most: Int { 64 }

    private var numbers: [Peer: UInt16] = [:]
    private var peers: [UInt16: Peer] = [:]
    private var last: UInt16 = 0

    package init() {}

    /// Returns the number of a peer. A new peer gets a new number.
    ///
    /// Peers do not report an end, so at most `most` peers are kept. A further peer replaces the oldest one, whose number is returned
    /// as `forgotten`. If the replaced peer sends again, it gets a new number.
    package mutating func number(of peer: Peer) -> (number: UInt16, forgotten: UInt16?) {
        if let number = numbers[peer] { return (number, nil) }
        last &+= 1
        numbers[peer] = last
        peers[last] = peer
        let oldest = last &- UInt16(Self.most)
        guard let forgotten = peers.removeValue(forKey: oldest) else { return (last, nil) }
        numbers[forgotten] = nil
        return (last, oldest)
    }

    /// Returns the peer with a number; nil if it was replaced.
    package func peer(_ number: UInt16) -> Peer? { peers[number] }
}

/// Who speaks with a device over a transport that knows no connections: each sender is one, by a number.
package struct Callers<Peer: Hashable & Sendable>: Sendable {
    package static var most: Int { 64 }

    private var numbers: [Peer: UInt16] = [:]
    private var peers: [UInt16: Peer] = [:]
    private var last: UInt16 = 0

    package init() {}

    /// The number of a peer that was heard before, or a new one. Nobody says goodbye: for a new one too many the oldest is forgotten,
    /// and gets a new number if it comes again.
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

    package func peer(_ number: UInt16) -> Peer? { peers[number] }
}

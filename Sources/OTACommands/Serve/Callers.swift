/// Who speaks with a device over a bearer that knows no connections: each sender is one, by a number.
struct Callers<Peer: Hashable & Sendable>: Sendable {
    private static var most: Int { 64 }

    private var numbers: [Peer: UInt16] = [:]
    private var peers: [UInt16: Peer] = [:]
    private var last: UInt16 = 0

    /// The number of a peer that was heard before, or a new one.
    mutating func number(of peer: Peer) -> UInt16 {
        if let number = numbers[peer] { return number }
        // Nobody says goodbye: those of long ago are forgotten, and get a new number if they come again.
        if peers.count >= Self.most { (numbers, peers) = ([:], [:]) }
        last &+= 1
        numbers[peer] = last
        peers[last] = peer
        return last
    }

    func peer(_ number: UInt16) -> Peer? { peers[number] }
}

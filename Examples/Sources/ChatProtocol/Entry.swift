/// An entry of the history.
public enum Entry: Sendable, Hashable {
    case notice(String)
    /// A change of the peers in range.
    case peer(String)
    /// A message of this peer.
    case sent(Receipt, String)
    case received(from: String, String)
    /// The other peer, with this name, has received this message.
    case delivered(Receipt, to: String)

    /// The line for a program without a terminal. Nil: the entry has no line.
    ///
    /// Only a received message begins with "<". The other lines begin with words or a number of this program, so that no name and no text of
    /// a peer can look like another line, such as a receipt.
    public var line: String? {
        switch self {
        case .notice(let text), .peer(let text): text
        case .sent: nil
        case .received(let name, let text): "< \(name): \(text)"
        case .delivered(let message, let name): "Delivered: message \(message.number) to \(name)"
        }
    }
}

/// The name of a message of this peer. Each other peer has a message 1, so the number alone is no name.
public struct Receipt: Sendable, Hashable {
    public var peer: PeerID
    /// The number of the message. The messages to each peer are counted from 1.
    public var number: UInt32

    public init(_ peer: PeerID, _ number: UInt32) {
        self.peer = peer
        self.number = number
    }
}

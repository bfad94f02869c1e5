/// The first byte that a receiver does not have: its message, and its offset in the message. All earlier messages are complete.
public struct Position: Sendable, Hashable {
    /// The number of the message. Each peer counts the messages to another peer from 1.
    public var sequence: UInt32
    public var offset: UInt16

    public init(_ sequence: UInt32, _ offset: UInt16) {
        self.sequence = sequence
        self.offset = offset
    }
}

/// A value of the chat characteristic: one write or one notification. It has the number of the link (4 bytes) and a frame.
///
/// A notification goes to all subscribed centrals. By the number, a central ignores frames to another central. The number is the first four
/// bytes of the central's nonce, so it is new for each link.
public struct Packet: Sendable, Hashable {
    public var link: [UInt8]
    public var frame: Frame

    public init(_ link: [UInt8], _ frame: Frame) {
        self.link = link
        self.frame = frame
    }

    public init(bytes: [UInt8]) throws(ChatError) {
        guard bytes.count > 4 else { throw .malformedFrame }
        self.init(Array(bytes[..<4]), try Frame(bytes: Array(bytes[4...])))
    }

    public var bytes: [UInt8] { link + frame.bytes }
}

/// The content of a value. The first byte is the type. Integers are little-endian.
public enum Frame: Sendable, Hashable {
    /// Type 1: version (1 byte), identity of the sender (4), nonce (8).
    case hello(PeerID, nonce: [UInt8])
    /// Type 2: the proof that the sender knows the session (12).
    case proof([UInt8])
    /// Type 3: the sender's position: message (4), offset (2). It acknowledges all earlier messages.
    case position(Position)
    /// Type 4, or 5 for the end of a message: the position of the first byte (6), and the bytes of the message. The message is cut without
    /// regard to characters.
    case text(Position, [UInt8], isLast: Bool)
    /// Type 6: the sender leaves the chat. A goodbye has a number (4) like a message, and is acknowledged like a message.
    case goodbye(UInt32)

    static let version: UInt8 = 1
    /// The number of bytes before the text of a message, with the number of the link.
    static let textHeader = 11

    public init(bytes: [UInt8]) throws(ChatError) {
        let body = bytes.dropFirst()
        switch (bytes.first, body.count) {
        case (1, 13) where body[1] == Self.version:
            self = .hello(PeerID(UInt32(littleEndian: body[2..<6])), nonce: Array(body[6...]))
        case (2, Handshake.proofLength): self = .proof(Array(body))
        case (3, 6): self = .position(Self.position(body))
        case (4, 7...), (5, 7...):
            self = .text(Self.position(body), Array(body.dropFirst(6)), isLast: bytes[0] == 5)
        case (6, 4): self = .goodbye(UInt32(littleEndian: body[1..<5]))
        default: throw .malformedFrame
        }
    }

    private static func position(_ body: ArraySlice<UInt8>) -> Position {
        Position(UInt32(littleEndian: body[1..<5]), UInt16(littleEndian: body[5..<7]))
    }

    public var bytes: [UInt8] {
        switch self {
        case .hello(let peer, let nonce): [1, Self.version] + peer.value.littleEndianBytes + nonce
        case .proof(let proof): [2] + proof
        case .position(let position): [3] + position.bytes
        case .text(let position, let text, let isLast): [isLast ? 5 : 4] + position.bytes + text
        case .goodbye(let sequence): [6] + sequence.littleEndianBytes
        }
    }
}

extension Position {
    fileprivate var bytes: [UInt8] { sequence.littleEndianBytes + offset.littleEndianBytes }
}

import OTASigning

/// The session of a peer: a name that all its peers know. Peers of different sessions cannot chat.
public struct Session: Sendable, Hashable {
    private let key: [UInt8]

    public init(_ name: String) { key = SHA256.digest(of: Array("ble-chat session \(name)".utf8)).bytes }

    /// The number for advertisements (15 bits).
    var tag: UInt16 { UInt16(littleEndian: code([0xFF]).prefix(2)) & 0x7FFF }

    /// Returns HMAC-SHA256 (RFC 2104) of the message with the key of the session. The key is shorter than a block of 64 bytes.
    func code(_ message: [UInt8]) -> [UInt8] {
        let key = key + [UInt8](repeating: 0, count: 64 - key.count)
        let inner = SHA256.digest(of: key.map { $0 ^ 0x36 } + message).bytes
        return SHA256.digest(of: key.map { $0 ^ 0x5C } + inner).bytes
    }
}

/// The start of a link: both peers exchange their identities and prove that they know the session. An advertisement proves nothing, because
/// every program can advertise the same data.
///
/// A proof is the first half of HMAC-SHA256 over the sender's role, both identities and both nonces. The nonces are new for each link, so
/// that an old proof has no effect.
public struct Handshake: Sendable {
    private let session: Session
    private let own: PeerID
    private let isCentral: Bool
    private let nonce: [UInt8]
    private var peer: (id: PeerID, nonce: [UInt8])?
    /// The peer whose proof was correct.
    public private(set) var authenticated: PeerID?

    public init(_ session: Session, _ own: PeerID, isCentral: Bool, nonce: [UInt8]) {
        self.session = session
        self.own = own
        self.isCentral = isCentral
        self.nonce = nonce
    }

    /// The first frame of a central. A peripheral answers it.
    public var hello: Frame { .hello(own, nonce: nonce) }

    /// Processes a frame, and returns the frames to send.
    ///
    /// - Parameter expected: the only peer to accept. Nil: each peer of the session.
    public mutating func receive(_ frame: Frame, from expected: PeerID?) throws(ChatError) -> [Frame] {
        switch frame {
        case .hello(let id, let nonce):
            guard peer == nil, id != own else { throw .malformedFrame }
            guard expected == nil || id == expected else { throw .notExpected }
            peer = (id, nonce)
            return isCentral ? [] : [hello, .proof(proof(ofCentral: false))]
        case .proof(let proof):
            guard let peer, authenticated == nil else { throw .malformedFrame }
            guard proof == self.proof(ofCentral: !isCentral) else { throw .otherSession }
            authenticated = peer.id
            return isCentral ? [.proof(self.proof(ofCentral: true))] : []
        default: throw .otherSession
        }
    }

    private func proof(ofCentral: Bool) -> [UInt8] {
        guard let peer else { return [] }
        let (ours, theirs) = (own.value.littleEndianBytes + nonce, peer.id.value.littleEndianBytes + peer.nonce)
        let message = [ofCentral ? 1 : 0] + (isCentral ? ours + theirs : theirs + ours)
        return Array(session.code(message).prefix(16))
    }
}

/// The start of a link: both peers exchange their identities and prove that they know the session. An advertisement proves nothing, because
/// every program can advertise the same data.
///
/// A proof is the first 12 bytes of HMAC-SHA256 over the sender's role, both identities and both nonces. The nonces are new for each link, so
/// that an old proof has no effect.
public struct Handshake: Sendable {
    static let proofLength = 12

    private let session: Session
    private let own: PeerID
    private let isCentral: Bool
    private let nonce: [UInt8]
    private var peer: (id: PeerID, nonce: [UInt8])?
    /// The peer whose proof was correct.
    public private(set) var authenticated: PeerID?

    /// - Parameter nonce: 8 random bytes.
    public init(_ session: Session, _ own: PeerID, isCentral: Bool, nonce: [UInt8]) {
        self.session = session
        self.own = own
        self.isCentral = isCentral
        self.nonce = nonce
    }

    /// The number of the link (``Packet/link``). Nil: a peripheral that has not received the hello of the central.
    public var link: [UInt8]? { (isCentral ? nonce : peer?.nonce).map { Array($0.prefix(4)) } }

    /// The first frame of a central. A peripheral answers it.
    public var hello: Frame { .hello(own, nonce: nonce) }

    /// Processes a frame, and returns the frames to send. A repeated frame has no effect.
    ///
    /// - Parameter isExpected: whether to accept this peer.
    public mutating func receive(
        _ frame: Frame, from isExpected: (PeerID) -> Bool = { _ in true }
    ) throws(ChatError) -> [Frame] {
        switch frame {
        case .hello(let id, let nonce):
            if let peer, peer == (id, nonce) { return [] }
            guard peer == nil, id != own else { throw .malformedFrame }
            guard isExpected(id) else { throw .notExpected }
            peer = (id, nonce)
            return isCentral ? [] : [hello, .proof(proof(ofCentral: false))]
        case .proof(let proof):
            guard let peer else { throw .malformedFrame }
            guard proof == self.proof(ofCentral: !isCentral) else { throw .otherSession }
            guard authenticated == nil else { return [] }
            authenticated = peer.id
            return isCentral ? [.proof(self.proof(ofCentral: true))] : []
        default: throw .otherSession
        }
    }

    private func proof(ofCentral: Bool) -> [UInt8] {
        guard let peer else { return [] }
        let (ours, theirs) = (own.value.littleEndianBytes + nonce, peer.id.value.littleEndianBytes + peer.nonce)
        let message = [ofCentral ? 1 : 0] + (isCentral ? ours + theirs : theirs + ours)
        return Array(session.code(message).prefix(Self.proofLength))
    }
}

import BlueZ

/// The name of a link between the program and its messenger.
public enum LinkID: Sendable, Hashable {
    /// This peer is the central, in its attempt with this number.
    case central(Int)
    /// This peer is the peripheral, in its connection with this number.
    case peripheral(Int)

    var isCentral: Bool { if case .central = self { true } else { false } }
}

/// A link, from the attempt to connect to its end. Each state except `closing` has a deadline, because a stranger may never answer.
struct Link: Sendable {
    enum State: Sendable {
        case connecting, handshake, open
        /// The other peer has left, and ends the link. A new chat needs a new link.
        case left
        case closing
    }

    /// The time for a connection and, with `--secure`, for the answer of the user.
    private static let connectionLimit = Duration.seconds(30)
    private static let handshakeLimit = Duration.seconds(5)
    /// The time without progress while messages wait.
    private static let answerLimit = Duration.seconds(30)
    /// The time without progress after one of the peers has left.
    private static let farewellLimit = Duration.seconds(5)

    var state: State
    /// The device to which this central connects.
    let address: BluetoothAddress?
    var handshake: Handshake?
    var frameLength = 0
    /// The start of the state, or the last progress in it.
    var since: Duration
    private(set) var openedAt = Duration.zero
    /// Whether a part of a message has arrived at one of the peers.
    var hasProgress = false
    /// Whether this peer has discarded a part of a message, because it had left the chat. The rest of the message then leaves a gap.
    var hasDiscarded = false

    init(_ state: State, _ address: BluetoothAddress? = nil, at now: Duration) {
        self.state = state
        self.address = address
        since = now
    }

    /// The other peer, when it has proved that it knows the session.
    var peer: PeerID? { state == .open ? handshake?.authenticated : nil }
    /// Whether the link is with this device, in any state. Two links with one device disturb each other.
    func isLink(with address: BluetoothAddress, _ peer: PeerID?) -> Bool {
        self.address == address || peer != nil && handshake?.authenticated == peer
    }

    /// Whether the other peer is not known yet.
    var isStarting: Bool { state == .connecting || state == .handshake }

    mutating func begin(_ handshake: Handshake, frameLength: Int, at now: Duration) {
        (self.handshake, self.frameLength, state, since) = (handshake, frameLength, .handshake, now)
    }

    mutating func open(at now: Duration) { (state, since, openedAt) = (.open, now, now) }

    /// Whether the link was of use: otherwise the next attempt waits longer.
    func isUseful(at now: Duration) -> Bool { hasProgress || now - openedAt >= .seconds(10) }

    /// The time at which this peer gives up the link. Nil: it waits for nothing.
    ///
    /// - Parameters:
    ///   - isChat: whether the link is the link of the open chat.
    ///   - stalled: the time since which the open chat waits for the other peer.
    func deadline(isChat: Bool, stalled: Duration?) -> Duration? {
        switch state {
        case .connecting: since + Self.connectionLimit
        case .handshake: since + Self.handshakeLimit
        case .open where isChat: stalled.map { max(since, $0) + Self.answerLimit }
        case .open, .left: since + Self.farewellLimit
        case .closing: nil
        }
    }
}

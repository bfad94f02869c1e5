public import BlueZ
import TerminalText

/// A peer, without its radio, its clock and its terminal: an event goes in, and the actions of the program come out.
///
/// The peer that writes the first message of a chat becomes the peripheral of the pair: it advertises a call. The other peer answers the call:
/// it connects as the central. After a lost link, the same call makes the next link.
public struct Messenger: Sendable {
    public enum Event: Sendable {
        /// A device advertises this.
        case sighted(BluetoothAddress, name: String, Announcement)
        case vanished(BluetoothAddress)
        case typed(String)
        /// Standard input has ended. The messenger quits when nothing waits for the other peer.
        case inputEnded
        /// A link with the device of this address exists. A central is subscribed; a peripheral has received the first value and passes it
        /// next.
        case linked(LinkID, with: BluetoothAddress, frameLength: Int)
        case received(LinkID, [UInt8])
        /// The link has ended, or could not be made. The text is the reason.
        case unlinked(LinkID, String)
        /// The pairing with a device shows this number (six digits). The first number identifies the question.
        case compare(Int, BluetoothAddress, UInt32)
        /// The pairing has ended without an answer to this question.
        case withdrawn(Int)
        /// The last ``Action/advertise(_:)`` has failed. The text is the reason.
        case advertisingFailed(String)
        /// The scan has failed, and starts again. The text is the reason.
        case scanFailed(String)
        /// The time is the messenger's ``deadline``.
        case wake
    }

    public enum Action: Sendable, Hashable {
        case advertise(Announcement)
        case connect(LinkID, BluetoothAddress)
        case transmit(LinkID, [[UInt8]])
        /// End the link after the transmitted values, or end the attempt to connect. The program reports `unlinked`.
        case disconnect(LinkID)
        /// Refuse the received value.
        case refuse(ChatError)
        case answer(Int, Bool)
        case show(Entry)
        case quit
    }

    /// A peer in range, with its number in the list.
    public struct Peer: Sendable, Hashable, CustomStringConvertible {
        public let number: Int
        public let name: String
        public let address: BluetoothAddress
        /// The line in the list. The name is last, because it can contain an address.
        public var description: String { "\(number)  \(address)  \(name)" }
    }

    /// This peer and another one.
    struct Pair: Sendable {
        var name: String
        /// The device that the user has chosen, or that has called. Another device may advertise the same identity.
        var address: BluetoothAddress?
        var conversation = Conversation()
        var link: LinkID?
        /// Whether this peer calls. Nil: neither peer has written.
        var isPeripheral: Bool?
        /// Whether the other peer knows of the chat.
        var hasLinked = false
        /// The time since which the chat waits for the other peer.
        var stalled: Duration?
        /// The end of the call that only brings the goodbye.
        var farewellEnd: Duration?
    }

    /// The time after which a chat ends that waits for the other peer, without progress.
    public static let chatLimit = Duration.seconds(120)
    static let farewellCallLimit = Duration.seconds(30)
    /// The time of a call to a candidate before the next candidate's turn. A scan pauses, so a peer sees a call up to 5 s late.
    static let turnLimit = Duration.seconds(15)
    /// The time after which a failed change of the advertisement is repeated.
    static let advertisingRetry = Duration.seconds(5)
    /// The maximum time from the command `/quit` to ``Action/quit``.
    public static let quitLimit = Duration.seconds(2)

    public let id: PeerID
    let session: Session
    let nonce: @Sendable () -> [UInt8]
    var now = Duration.zero
    var devices = Devices()
    var pairs: [PeerID: Pair] = [:]
    var links: [LinkID: Link] = [:]
    var attempts = 0
    /// The start of the wait for the wanted peer, and the time after which the next notice reports it.
    var callNotice: (start: Duration, wait: Duration)?
    /// The peer in the open chat.
    var chat: PeerID?
    /// The name or the address of the only peer with which to open a chat. Nil: any peer.
    let wanted: String?
    /// Whether each line is for the wanted peer, also after the end of a chat. The writer of a pipe does not see that a chat has ended, so a
    /// line is never the name of a peer.
    let keepsLines: Bool
    /// True until the first chat with the wanted peer, and with ``keepsLines`` while no chat is open.
    var awaitsPeer: Bool
    /// The identities in range with the wanted name or address, in the order of their turns. Only a link proves which one is the peer.
    var candidates: [PeerID] = []
    /// The start of the call to the first candidate.
    var turnStart: Duration?
    /// Messages that were typed without a chat with the wanted peer. No peer gets them before a link with it is authenticated.
    var early: [String] = []
    var earlyBytes = 0
    /// The number of lines that were not accepted.
    public internal(set) var refusedLines = 0
    /// The comparisons that the user has not answered. Only the first one is shown.
    var questions: [(id: Int, address: BluetoothAddress, number: UInt32)] = []
    var hasInputEnded = false
    /// The time at which the messenger quits, also if the goodbye is not acknowledged. Nil: it does not quit.
    var quitTime: Duration?
    private var hasQuit = false
    /// Nil: the last change has failed.
    private var advertised: Announcement?
    /// The time of the next attempt to change the advertisement. Nil: the last one has not failed.
    private var advertisingTime: Duration?
    /// The failures that the user has seen, with their last times.
    private var failures: [String: Duration] = [:]
    var actions: [Action] = []

    /// - Parameters:
    ///   - wanted: the name or the address of the peer to chat with as soon as it is in range. This peer opens no other chat.
    ///   - isPiped: whether a program writes the lines. All of them are then for the wanted peer.
    public init(
        _ id: PeerID, _ session: Session, wanted: String? = nil, isPiped: Bool = false,
        nonce: @escaping @Sendable () -> [UInt8] = { (0..<8).map { _ in .random(in: .min ... .max) } }
    ) {
        self.id = id
        self.session = session
        self.wanted = wanted
        awaitsPeer = wanted != nil
        keepsLines = wanted != nil && isPiped
        self.nonce = nonce
        advertised = announcement
    }

    /// The current advertisement: a call while the peripheral of a pair has no link, or the presence.
    public var announcement: Announcement { Announcement(called.map { .call($0) } ?? .presence(id), session) }

    /// The peer that this peer calls.
    var called: PeerID? {
        guard quitTime == nil else { return nil }
        if awaitsPeer, turnStart != nil { return candidates.first }
        if let chat, pairs[chat]?.isPeripheral == true, pairs[chat]?.link == nil { return chat }
        let owed = pairs.filter { $1.farewellEnd != nil && $1.link == nil && $1.conversation.owesGoodbye }
        return owed.keys.min { $0.value < $1.value }
    }

    public var isOpen: Bool { chat.flatMap { pairs[$0]?.conversation.isSynchronized } ?? false }
    /// The name of the peer in the open chat.
    public var chatName: String? { chat.flatMap { pairs[$0]?.name } }
    /// The number of messages that have not arrived, at all peers.
    public var undelivered: Int { pairs.values.reduce(early.count) { $0 + $1.conversation.undelivered } }
    /// The peers in range, in the order in which they were found.
    public var peers: [Peer] { devices.peers }

    public mutating func handle(_ event: Event, at time: Duration) -> [Action] {
        (now, actions) = (time, [])
        switch event {
        case .sighted(let address, let name, let announcement): sight(address, shown(name), announcement)
        case .vanished(let address):
            if let name = devices.vanish(address) { show(.peer("Out of range: \(name)")) }
        case .typed(let text): type(text)
        case .inputEnded: hasInputEnded = true
        case .linked(let id, let address, let frameLength): link(id, address, frameLength)
        case .received(let id, let bytes): receive(bytes, on: id)
        case .unlinked(let id, let reason): unlink(id, reason)
        case .compare(let id, let address, let number): compare(id, address, number)
        case .withdrawn(let id): withdraw(id)
        case .advertisingFailed(let reason):
            advertisingTime = now + Self.advertisingRetry
            notice(failure: "The advertisement failed and is repeated: \(reason)")
        case .scanFailed(let reason):
            notice(failure: "The search for peers failed and is repeated: \(reason)")
        case .wake: break
        }
        update()
        return actions
    }

    /// The next time at which to call ``handle(_:at:)`` with ``Event/wake``.
    public var deadline: Duration? {
        let chatEnd = chat.flatMap { pairs[$0]?.stalled }.map { $0 + Self.chatLimit }
        let attempt = canConnect ? devices.deadline(where: isWelcome) : nil
        let turnEnd = candidates.count > 1 && quitTime == nil ? turnStart.map { $0 + Self.turnLimit } : nil
        let notice = callNotice.map { $0.start + $0.wait }
        let times = [chatEnd, attempt, turnEnd, notice, advertisingTime, hasQuit ? nil : quitTime]
        return (times + links.values.map(deadline) + pairs.values.map(\.farewellEnd)).compactMap(\.self).min()
    }

    mutating func show(_ entry: Entry) { actions.append(.show(entry)) }
    mutating func notice(_ text: String) { show(.notice(text)) }

    /// Shows a failure of this machine. A failure that repeats is shown again after 30 s without it.
    private mutating func notice(failure: String) {
        failures = failures.filter { now - $0.value <= .seconds(30) }
        if failures.updateValue(now, forKey: failure) == nil { notice(failure) }
    }

    /// Adds the actions that follow from the state and from the time.
    private mutating func update() {
        updateChat()
        updateTurn()
        updateCallNotice()
        for (id, link) in links where deadline(of: link).map({ $0 <= now }) ?? false { expire(id, link) }
        for (peer, pair) in pairs where pair.farewellEnd.map({ $0 <= now }) ?? false { pairs[peer]?.farewellEnd = nil }
        if hasInputEnded, quitTime == nil, early.isEmpty, !isWaiting { quit() }
        endQuitting()
        if let advertisingTime, now >= advertisingTime { (self.advertisingTime, advertised) = (nil, nil) }
        if advertisingTime == nil, advertised != announcement {
            advertised = announcement
            actions.append(.advertise(announcement))
        }
        guard canConnect, let caller = devices.caller(at: now, where: isWelcome) else { return }
        attempts += 1
        devices.attempt(caller)
        links[.central(attempts)] = Link(.connecting, caller, at: now)
        actions.append(.connect(.central(attempts), caller))
    }

    private mutating func endQuitting() {
        guard let quitTime, !hasQuit, now >= quitTime || !links.values.contains(where: isUnsettled) else { return }
        hasQuit = true
        // The other messages do not arrive any more, so the goodbye does not wait for them.
        for (peer, pair) in pairs where pair.conversation.undelivered > 0 {
            if let goodbye = pairs[peer]?.conversation.earlyGoodbye() { transmit([goodbye], on: pair.link) }
        }
        actions.append(.quit)
    }

    private func deadline(of link: Link) -> Duration? {
        link.deadline(isChat: link.peer != nil && link.peer == chat, stalled: link.peer.flatMap { pairs[$0]?.stalled })
    }

    /// Whether a chat or a link has messages on their way.
    private var isWaiting: Bool {
        links.values.contains(where: isUnsettled) || chat.flatMap { pairs[$0]?.conversation.isSettled } == false
    }

    private func isUnsettled(_ link: Link) -> Bool {
        link.peer.flatMap { pairs[$0]?.conversation.isSettled } == false
    }

    /// Decides who calls, and ends a chat that has waited too long.
    private mutating func updateChat() {
        guard let chat, var pair = pairs[chat] else { return }
        // While this peer answers a call, it does not call.
        if pair.isPeripheral == nil, pair.conversation.undelivered > 0, canConnect { pair.isPeripheral = true }
        let isStalled = pair.isPeripheral != nil && !(pair.conversation.isSynchronized && pair.conversation.isSettled)
        pair.stalled = isStalled ? pair.stalled ?? now : nil
        pairs[chat] = pair
        if let stalled = pair.stalled, now >= stalled + Self.chatLimit {
            let seconds = Self.chatLimit.components.seconds
            leave("The chat ended: \(pair.name) did not answer for \(seconds) s.", .withoutGoodbye)
        }
    }

    /// Whether no attempt to connect is under way.
    var canConnect: Bool { !links.contains { $0.key.isCentral && $0.value.state != .open } }

    func owesGoodbye(_ peer: PeerID) -> Bool { pairs[peer]?.conversation.owesGoodbye ?? false }
}

extension Messenger.Event {
    /// Nil: the device is not a peer.
    public init?(_ event: ScanEvent) {
        switch event {
        case .appeared(let device), .changed(let device):
            guard let announcement = Announcement(device.manufacturerData) else { return nil }
            self = .sighted(device.address, name: device.name ?? "\(device.address)", announcement)
        case .disappeared(let device): self = .vanished(device.address)
        }
    }
}

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
    public struct Peer: Sendable, Hashable {
        public let number: Int
        public let name: String
        public let address: BluetoothAddress
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
    private var callNotice: (start: Duration, wait: Duration)?
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
    private var advertised: Announcement?
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
            if let name = devices.vanish(address) { show(.peer("\(name) is out of range")) }
        case .typed(let text): type(text)
        case .inputEnded: hasInputEnded = true
        case .linked(let id, let address, let frameLength): link(id, address, frameLength)
        case .received(let id, let bytes): receive(bytes, on: id)
        case .unlinked(let id, let reason): unlink(id, reason)
        case .compare(let id, let address, let number): compare(id, address, number)
        case .withdrawn(let id): withdraw(id)
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
        let times = [chatEnd, attempt, turnEnd, notice, hasQuit ? nil : quitTime] + links.values.map(deadline)
        return (times + pairs.values.map(\.farewellEnd)).compactMap(\.self).min()
    }

    mutating func show(_ entry: Entry) { actions.append(.show(entry)) }
    mutating func notice(_ text: String) { show(.notice(text)) }

    /// Adds the actions that follow from the state and from the time.
    private mutating func update() {
        updateChat()
        updateTurn()
        updateCallNotice()
        for (id, link) in links where deadline(of: link).map({ $0 <= now }) ?? false { expire(id, link) }
        for (peer, pair) in pairs where pair.farewellEnd.map({ $0 <= now }) ?? false { pairs[peer]?.farewellEnd = nil }
        if hasInputEnded, quitTime == nil, early.isEmpty, !isWaiting { quit() }
        endQuitting()
        if advertised != announcement {
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

    /// Calls the candidates in turn, as soon as there is a message for the wanted peer.
    private mutating func updateTurn() {
        guard awaitsPeer else { return }
        let present = devices.identities(where: isWanted)
        let first = candidates.first
        candidates.removeAll { !present.contains($0) }
        candidates += present.subtracting(candidates).sorted { $0.value < $1.value }
        if candidates.isEmpty || candidates.first != first { turnStart = nil }
        if candidates.count > 1, let start = turnStart, now >= start + Self.turnLimit {
            candidates.append(candidates.removeFirst())
            turnStart = nil
        }
        if turnStart == nil, !early.isEmpty, !candidates.isEmpty, canConnect { turnStart = now }
    }

    /// Reports that messages wait for the wanted peer, with increasing waits. The program continues until the user ends it.
    private mutating func updateCallNotice() {
        guard awaitsPeer, !early.isEmpty, quitTime == nil else { return callNotice = nil }
        let (start, wait) = callNotice ?? (now, Self.turnLimit)
        callNotice = (start, wait)
        guard now >= start + wait else { return }
        callNotice = (start, wait * 2)
        let reason = candidates.isEmpty ? "is not in range" : "does not answer"
        let seconds = wait.components.seconds
        let name = shown(wanted ?? "")
        notice("No link after \(seconds) s: \(name) \(reason). Still trying; Control-C ends the program.")
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
    private var canConnect: Bool { !links.contains { $0.key.isCentral && $0.value.state != .open } }

    /// Whether to answer the call of a device.
    private func isWelcome(_ address: BluetoothAddress, _ device: Devices.Device) -> Bool {
        guard quitTime == nil, !isImpostor(address),
            !links.values.contains(where: { $0.isLink(with: address, device.id) })
        else { return false }
        // The other peer does not know that this peer has left.
        if let peer = device.id, peer != chat, owesGoodbye(peer) { return true }
        guard let chat, let pair = pairs[chat] else {
            // If both peers call each other, the one with the smaller number answers.
            if awaitsPeer, let called, device.id == called, id.value > called.value { return false }
            return isWanted(device.name, address)
        }
        guard pair.link == nil else { return false }
        // If both peers call each other, the one with the smaller number answers.
        if pair.isPeripheral == true { return device.id == chat && id.value < chat.value }
        return device.id == nil || device.id == chat
    }

    /// Whether a chat with this peer may be opened.
    func isWanted(_ name: String, _ address: BluetoothAddress) -> Bool {
        wanted.map { Devices.matches($0, name, address) } ?? true
    }

    /// Whether the user wants another address. Every member of the session can copy the identity of the wanted peer.
    func isImpostor(_ address: BluetoothAddress) -> Bool {
        wanted.flatMap { BluetoothAddress($0) }.map { $0 != address } ?? false
    }

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

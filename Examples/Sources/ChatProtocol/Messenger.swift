public import BlueZ

/// A peer, without its radio and its terminal: an event goes in, and the actions of the program come out.
///
/// The peer that writes the first message of a chat becomes the peripheral of the pair: it advertises a call. The other peer answers the call:
/// it connects as the central. After a lost link, the same call makes the next link.
public struct Messenger: Sendable {
    public enum Event: Sendable {
        /// A device advertises this.
        case sighted(BluetoothAddress, name: String, Announcement)
        case vanished(BluetoothAddress)
        case typed(String)
        /// A link exists. A central is subscribed; a peripheral has received the first frame and passes it next.
        case linked(asCentral: Bool, frameLength: Int)
        case received([UInt8])
        /// The link has ended, or could not be made. The text is the reason.
        case unlinked(String)
        /// The time limit of the handshake.
        case handshakeExpired
        /// The pairing shows this number (six digits).
        case compare(UInt32)
    }

    public enum Action: Sendable, Hashable {
        case advertise(Announcement)
        case connect(BluetoothAddress, after: Duration)
        case transmit([Frame])
        /// End the link after the transmitted frames, or end the attempt to connect.
        case disconnect
        /// Refuse the received frame.
        case refuse(ChatError)
        case answer(Bool)
        case show(Entry)
        case quit
    }

    private enum Link {
        case connecting
        case handshake(Handshake, frameLength: Int)
        case open
        case closing
    }

    private struct Pair {
        var name: String
        var isPeripheral: Bool?
        var conversation = Conversation()
    }

    private struct Sighting {
        var name: String
        var id: PeerID?
        var isCalling = false
    }

    public let id: PeerID
    private let session: Session
    private var wanted: String?
    private let nonce: @Sendable () -> [UInt8]
    private var sightings: [BluetoothAddress: Sighting] = [:]
    private var pairs: [PeerID: Pair] = [:]
    private var chat: PeerID?
    private var link: Link?
    /// The address of the peripheral that this central connects to.
    private var target: BluetoothAddress?
    private var failures = 0
    /// The devices that have failed to prove that they know the session. This peer does not answer their calls.
    private var strangers: Set<BluetoothAddress> = []
    /// The devices whose present calls this peer does not answer, because the user has left their chats.
    private var left: Set<BluetoothAddress> = []
    /// Messages that were typed before the wanted peer was in range.
    private var early: [String] = []
    private var question: UInt32?
    private var advertised: Announcement?
    private var actions: [Action] = []

    /// - Parameter wanted: the name of the peer to chat with as soon as it is in range.
    public init(
        _ id: PeerID, _ session: Session, wanted: String? = nil,
        nonce: @escaping @Sendable () -> [UInt8] = { (0..<8).map { _ in .random(in: .min ... .max) } }
    ) {
        self.id = id
        self.session = session
        self.wanted = wanted
        self.nonce = nonce
        advertised = announcement
    }

    /// The current advertisement: a call while the peripheral of the open chat has no link, or the presence.
    public var announcement: Announcement {
        if let chat, pairs[chat]?.isPeripheral == true, !isOpen { return Announcement(.call(chat), session) }
        return Announcement(.presence(id), session)
    }

    public var isOpen: Bool { if case .open = link { true } else { false } }
    public var isAsking: Bool { question != nil }
    /// The name of the peer in the open chat.
    public var chatName: String? { chat.flatMap { pairs[$0]?.name } }
    public var hasUndelivered: Bool {
        !early.isEmpty || chat.flatMap { pairs[$0]?.conversation.hasUndelivered } ?? false
    }
    /// The peers in range, in the order of their names.
    public var peers: [(name: String, address: BluetoothAddress)] {
        sightings.filter { $0.value.id != nil }.map { ($0.value.name, $0.key) }
            .sorted { ($0.name, $0.address.value) < ($1.name, $1.address.value) }
    }

    public mutating func handle(_ event: Event) -> [Action] {
        actions = []
        switch event {
        case .sighted(let address, let name, let announcement): sight(address, name, announcement)
        case .vanished(let address):
            if let gone = sightings.removeValue(forKey: address), gone.id != nil {
                show(.peer("\(gone.name) is out of range"))
            }
        case .typed(let text): type(text)
        case .linked(let asCentral, let frameLength):
            let handshake = Handshake(session, id, isCentral: asCentral, nonce: nonce())
            link = .handshake(handshake, frameLength: frameLength)
            if asCentral { actions.append(.transmit([handshake.hello])) }
        case .received(let bytes):
            do throws(ChatError) { try receive(Frame(bytes: bytes)) } catch { refuse(error) }
        case .unlinked(let reason): unlink(reason)
        case .handshakeExpired: if case .handshake = link { close("the other peer did not answer") }
        case .compare(let number):
            question = number
            let digits = String(number)
            show(
                .notice(
                    "Does the other peer show \(String(repeating: "0", count: 6 - digits.count))\(digits)? yes or no"))
        }
        update()
        return actions
    }

    private mutating func show(_ entry: Entry) { actions.append(.show(entry)) }

    /// Adds the actions that follow from the state: another advertisement, or the answer to a call.
    private mutating func update() {
        // If both peers call each other, the one with the smaller number answers.
        if let chat, link == nil, id.value < chat.value,
            sightings.values.contains(where: { $0.id == chat && $0.isCalling })
        {
            pairs[chat]?.isPeripheral = false
        }
        if advertised != announcement {
            advertised = announcement
            actions.append(.advertise(announcement))
        }
        guard link == nil, let caller else { return }
        link = .connecting
        target = caller
        // A second attempt waits, up to 8 s.
        let delay = failures == 0 ? .zero : Duration.milliseconds(500) * (1 << min(failures - 1, 4))
        actions.append(.connect(caller, after: delay))
    }

    /// The device whose call this peer answers now.
    private var caller: BluetoothAddress? {
        sightings.filter { address, sighting in
            guard sighting.isCalling, !strangers.contains(address), !left.contains(address) else { return false }
            guard let chat else { return true }
            return pairs[chat]?.isPeripheral != true && (sighting.id == nil || sighting.id == chat)
        }.keys.min { $0.value < $1.value }
    }
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

/// Devices in range, and commands.
extension Messenger {
    private mutating func sight(_ address: BluetoothAddress, _ name: String, _ announcement: Announcement) {
        guard announcement.tag == Announcement(.presence(id), session).tag else { return }
        let name = visible(name)
        var sighting = sightings[address] ?? Sighting(name: name)
        switch announcement.kind {
        case .presence(let peer):
            sighting.isCalling = false
            left.remove(address)
            guard peer != id else { break }
            if sighting.id != peer {
                sighting.name = name
                show(.peer("\(name) (\(address)) is in range"))
            }
            sighting.id = peer
        case .call(let callee): sighting.isCalling = callee == id
        }
        sightings[address] = sighting
        if chat == nil, sighting.id != nil, sighting.name == wanted { open(address) }
    }

    private mutating func type(_ text: String) {
        switch text {
        case "": break
        case "/quit": actions.append(.quit)
        case "/leave":
            guard chat != nil else { return show(.notice("No chat is open.")) }
            if isOpen { actions.append(.transmit([.goodbye])) }
            leave("You left the chat.")
        case "/peers":
            for (name, address) in peers { show(.notice("\(name) (\(address))")) }
        case "yes" where isAsking, "no" where isAsking:
            question = nil
            actions.append(.answer(text == "yes"))
            if text == "no" { leave("You refused the link.") }
        default:
            if chat != nil {
                send(text)
            } else if wanted != nil {
                early.append(text)
            } else if let (_, address) = peer(text) {
                open(address)
            } else {
                show(.notice("No peer \(visible(text)) is in range."))
            }
        }
    }

    /// Finds a peer by its name or by its number in the list.
    private func peer(_ text: String) -> (name: String, address: BluetoothAddress)? {
        if let number = Int(text), peers.indices.contains(number - 1) { return peers[number - 1] }
        return peers.first { $0.name == text }
    }

    private mutating func open(_ address: BluetoothAddress) {
        guard let sighting = sightings[address], let peer = sighting.id else { return }
        left.remove(address)
        open(peer, sighting.name)
    }

    private mutating func open(_ peer: PeerID, _ name: String) {
        chat = peer
        pairs[peer, default: Pair(name: name)].name = name
        wanted = nil
        show(.notice("Chat with \(name)."))
        for text in early { send(text) }
        early = []
    }

    private mutating func send(_ text: String) {
        guard let chat, var pair = pairs[chat] else { return }
        do throws(ChatError) {
            let frames = try pair.conversation.send(text)
            if pair.isPeripheral == nil { pair.isPeripheral = !(link != nil && !isClosing) }
            pairs[chat] = pair
            show(.sent(pair.conversation.lastSequence, visible(text)))
            if !frames.isEmpty { actions.append(.transmit(frames)) }
        } catch { show(.notice("Not sent: \(error).")) }
    }

    private mutating func leave(_ notice: String) {
        if let target, !isOpen { left.insert(target) }
        if let chat {
            // Without a link, the other peer may call on.
            for (address, sighting) in sightings where sighting.id == chat {
                sightings[address]?.isCalling = false
                if !isOpen, sighting.isCalling { left.insert(address) }
            }
            pairs[chat]?.conversation.unlink()
            pairs[chat]?.isPeripheral = nil
        }
        chat = nil
        show(.notice(notice))
        if link != nil, !isClosing {
            link = .closing
            actions.append(.disconnect)
        }
    }
}

/// The link.
extension Messenger {
    private var isClosing: Bool { if case .closing = link { true } else { false } }

    private mutating func receive(_ frame: Frame) throws(ChatError) {
        switch link {
        case .handshake(var handshake, let frameLength):
            // The peripheral expects the called peer. A central without an open chat accepts each peer.
            let isCentral = target != nil
            guard isCentral || chat.flatMap({ pairs[$0]?.isPeripheral }) == true else { throw .notExpected }
            let answer = try handshake.receive(frame, from: chat)
            link = .handshake(handshake, frameLength: frameLength)
            if !answer.isEmpty { actions.append(.transmit(answer)) }
            if let peer = handshake.authenticated { start(peer, frameLength) }
        case .open:
            guard let chat, var pair = pairs[chat] else { return }
            guard frame != .goodbye else { return leave("\(pair.name) left the chat.") }
            let outcome = try pair.conversation.receive(frame)
            pairs[chat] = pair
            if !outcome.frames.isEmpty { actions.append(.transmit(outcome.frames)) }
            for sequence in outcome.delivered { show(.delivered(sequence)) }
            if let message = outcome.message { show(.received(from: pair.name, visible(message))) }
        case .connecting, .closing, nil: break
        }
    }

    private mutating func start(_ peer: PeerID, _ frameLength: Int) {
        if chat == nil { open(peer, target.flatMap { sightings[$0]?.name } ?? "Unknown") }
        link = .open
        failures = 0
        if pairs[peer]?.isPeripheral == nil { pairs[peer]?.isPeripheral = target == nil }
        show(.notice("Connected to \(pairs[peer]?.name ?? "")."))
        if let position = pairs[peer]?.conversation.link(frameLength: frameLength) {
            actions.append(.transmit([position]))
        }
    }

    /// Refuses a frame, and ends the link. This peer does not call and does not answer a peer that has sent invalid frames.
    private mutating func refuse(_ error: ChatError) {
        actions.append(.refuse(error))
        if isOpen {
            leave("The chat ended: \(error).")
        } else {
            if error == .otherSession, let target { strangers.insert(target) }
            close("\(error)")
        }
    }

    private mutating func close(_ reason: String) {
        show(.notice("Link refused: \(reason)."))
        failures += 1
        link = .closing
        actions.append(.disconnect)
    }

    private mutating func unlink(_ reason: String) {
        switch link {
        case .open:
            show(.notice("Link lost: \(reason)."))
            if let chat { pairs[chat]?.conversation.unlink() }
        case .connecting, .handshake:
            failures += 1
            if failures == 1 { show(.notice("No link: \(reason).")) }
        case .closing, nil: break
        }
        link = nil
        target = nil
        if question != nil { question = nil }
    }
}

import BlueZ
import TerminalText

/// The user's part of a messenger: the peers in range, the chat, and the commands.
extension Messenger {
    enum Parting {
        /// This peer leaves. The other peer gets a goodbye after all messages, over this link or over the next one.
        case goodbye
        /// The other peer has sent invalid frames. It gets the goodbye over the next link.
        case goodbyeLater
        /// The other peer has left. It ends the link.
        case afterGoodbye
        case withoutGoodbye
    }

    mutating func sight(_ address: BluetoothAddress, _ name: String, _ announcement: Announcement) {
        guard announcement.tag == session.tag else { return }
        if devices.sight(address, name, announcement.kind, own: id) { show(.peer("In range: \(address) \(name)")) }
    }

    mutating func type(_ text: String) {
        switch text {
        case "": break
        case "/quit": quit()
        case "/leave":
            guard chat != nil else { return notice("No chat is open. Type the number of a peer.") }
            leave("You left the chat.", .goodbye)
        case "/peers":
            for peer in peers { notice(peer.description) }
        case _ where accepts(text): break
        default:
            if chat != nil {
                send(text)
            } else if awaitsPeer {
                guard earlyBytes + text.utf8.count <= Conversation.maximumWaiting else {
                    return refuseLine(.tooMuchWaits)
                }
                early.append(text)
                earlyBytes += text.utf8.count
            } else {
                choose(text)
            }
        }
    }

    /// Opens the chat with the peer that the user has chosen by its number, its name or its address.
    private mutating func choose(_ text: String) {
        let found = devices.addresses(of: text)
        guard found.count < 2 else {
            return refuseLine("\(found.count) peers have the name \(shown(text)). Type /peers, and then a number.")
        }
        guard let address = found.first, let device = devices[address], let peer = device.id else {
            return refuseLine("No peer \(shown(text)) is in range. Type /peers for the list.")
        }
        guard isWanted(device.name, address) else {
            return refuseLine("This program chats only with \(shown(wanted ?? "")).")
        }
        open(peer, device.name, address)
    }

    private mutating func refuseLine(_ text: String) {
        refusedLines += 1
        notice(text)
    }

    private mutating func refuseLine(_ error: ChatError) {
        refuseLine("Not sent: \(error). Send it \(error == .wrongLength ? "in parts" : "again after a delivery").")
    }

    mutating func open(_ peer: PeerID, _ name: String, _ address: BluetoothAddress?) {
        var pair = pairs[peer] ?? Pair(name: name)
        (pair.name, pair.address) = (name, address ?? pair.address)
        pair.conversation.enter()
        (pair.isPeripheral, pair.hasLinked) = (pair.link.map { !$0.isCentral }, pair.link != nil)
        (pair.stalled, pair.farewellEnd) = (nil, nil)
        pairs[peer] = pair
        (chat, awaitsPeer, candidates, turnStart) = (peer, false, [], nil)
        notice("Chat with \(name).")
        // Without a goodbye on its way, only a new link continues a discarded message.
        if let id = pair.link, links[id]?.hasDiscarded == true, !pair.conversation.owesGoodbye { close(id) }
        for text in early { send(text) }
        (early, earlyBytes) = ([], 0)
    }

    private mutating func send(_ text: String) {
        guard let chat, var pair = pairs[chat] else { return }
        do throws(ChatError) {
            let frames = try pair.conversation.send(text)
            pairs[chat] = pair
            show(.sent(Receipt(chat, pair.conversation.lastNumber), shown(text)))
            transmit(frames, on: pair.link)
        } catch { refuseLine(error) }
    }

    /// Ends the chat. Messages that have not arrived remain, for the next chat with the same peer.
    mutating func leave(_ text: String, _ parting: Parting) {
        guard let peer = chat, var pair = pairs[peer] else { return }
        (chat, awaitsPeer) = (nil, keepsLines)
        var frames: [Frame] = []
        switch parting {
        case .goodbye where pair.hasLinked, .goodbyeLater where pair.hasLinked:
            frames = pair.conversation.leave()
            if pair.isPeripheral == true { pair.farewellEnd = now + Self.farewellCallLimit }
        case .afterGoodbye: devices.endCalls(of: peer, pair.link.flatMap { links[$0]?.address }, at: now)
        case .goodbye, .goodbyeLater, .withoutGoodbye: devices.ignoreCalls { $1.id == peer }
        }
        (pair.isPeripheral, pair.hasLinked, pair.stalled) = (nil, false, nil)
        // A faulty peer may come again and again with another identity, so a part of a message must not remain.
        let hasDiscarded = pair.conversation.discardPart()
        pairs[peer] = pair
        if let id = pair.link {
            links[id]?.since = now
            if hasDiscarded { links[id]?.hasDiscarded = true }
            if parting == .goodbye { transmit(frames, on: id) }
            if parting == .goodbyeLater || parting == .withoutGoodbye { close(id) }
        }
        closeStartingLinks(to: peer)
        notice(text)
        let count = pair.conversation.undelivered
        if count > 0 { notice("Not delivered: \(count) \(count == 1 ? "message" : "messages") to \(pair.name).") }
        if keepsLines, !hasInputEnded { notice("The next line calls \(shown(wanted ?? "")) again.") }
    }

    /// Sends the goodbye after the messages, and quits when everything is acknowledged, at the latest after 2 s.
    mutating func quit() {
        guard quitTime == nil else { return }
        quitTime = now + Self.quitLimit
        if let peer = chat, var pair = pairs[peer] {
            chat = nil
            if pair.hasLinked { transmit(pair.conversation.leave(), on: pair.link) }
            pairs[peer] = pair
        }
    }

    // MARK: - Numeric comparison

    mutating func compare(_ id: Int, _ address: BluetoothAddress, _ number: UInt32) {
        questions.append((id, address, number))
        for (id, link) in links where link.address == address && link.state == .connecting { links[id]?.since = now }
        if questions.count == 1 { ask() }
    }

    private mutating func ask() {
        guard let (_, address, number) = questions.first else { return }
        let name = devices[address].map { "\(address) \($0.name)" } ?? "the unknown device \(address)"
        let digits = Self.digits(number)
        notice("Does the other device show \(digits)? Type yes \(digits) or no \(digits). It is \(name)")
    }

    private static func digits(_ number: UInt32) -> String {
        String(repeating: "0", count: max(0, 6 - "\(number)".count)) + "\(number)"
    }

    /// Whether the line answers the question. The answer has the number, so no message answers a question that the user has not seen.
    private mutating func accepts(_ text: String) -> Bool {
        guard let number = questions.first?.number else { return false }
        let isSame = text == "yes \(Self.digits(number))"
        guard isSame || text == "no \(Self.digits(number))" else { return false }
        answer(isSame)
        return true
    }

    mutating func withdraw(_ id: Int) {
        let wasShown = questions.first?.id == id
        questions.removeAll { $0.id == id }
        if wasShown { ask() }
    }

    private mutating func answer(_ isSame: Bool) {
        let (id, address, _) = questions.removeFirst()
        actions.append(.answer(id, isSame))
        if !isSame { refuse(address) }
        ask()
    }

    /// Refuses a link before its start. Only the refusal of the chat's own device ends a chat.
    private mutating func refuse(_ address: BluetoothAddress) {
        devices.refuse(address)
        if let chat, let pair = pairs[chat], pair.link == nil, pair.address == address {
            leave("You refused the link.", .withoutGoodbye)
        } else {
            notice("You refused the link.")
        }
        for (id, link) in links where link.address == address && link.state == .connecting { close(id) }
    }
}

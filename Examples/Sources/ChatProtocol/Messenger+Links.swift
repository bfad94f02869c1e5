import BlueZ
import TerminalText

/// The links of a messenger: at most one to the peer in the open chat, and others that start or end.
extension Messenger {
    /// The maximum number of centrals whose handshakes run at the same time. So a stranger that is silent does not exclude the called peer.
    private static let maximumHandshakes = 8

    mutating func transmit(_ frames: [Frame], on id: LinkID?) {
        guard let id, !frames.isEmpty, let number = links[id]?.handshake?.link else { return }
        actions.append(.transmit(id, frames.map { Packet(number, $0).bytes }))
    }

    mutating func link(_ id: LinkID, _ address: BluetoothAddress, _ frameLength: Int) {
        let handshake = Handshake(session, self.id, isCentral: id.isCentral, nonce: nonce())
        if id.isCentral {
            guard links[id]?.state == .connecting else { return }
        } else {
            links[id] = Link(.connecting, at: now)
            let handshakes = links.count { !$0.key.isCentral && $0.value.state == .handshake }
            guard called != nil, handshakes < Self.maximumHandshakes, !isImpostor(address) else { return close(id) }
        }
        links[id]?.begin(handshake, frameLength: frameLength, at: now)
        if id.isCentral { transmit([handshake.hello], on: id) }
    }

    // MARK: - Received values

    mutating func receive(_ bytes: [UInt8], on id: LinkID) {
        guard let link = links[id] else { return }
        switch link.state {
        case .connecting: break
        case .left, .closing: actions.append(.refuse(.notExpected))
        case .handshake, .open:
            // A notification goes to all subscribed centrals. A value for another central has no effect.
            if id.isCentral, Array(bytes.prefix(4)) != link.handshake?.link { return }
            do throws(ChatError) { try receive(Packet(bytes: bytes), on: id, link) } catch { refuse(error, id, link) }
        }
    }

    private mutating func receive(_ packet: Packet, on id: LinkID, _ link: Link) throws(ChatError) {
        switch packet.frame {
        case .hello, .proof: try greet(packet, id, link)
        case .position, .text, .goodbye:
            guard let peer = link.peer else { throw .otherSession }
            guard packet.link == link.handshake?.link else { throw .malformedFrame }
            try converse(packet.frame, with: peer, id)
        }
    }

    private mutating func greet(_ packet: Packet, _ id: LinkID, _ link: Link) throws(ChatError) {
        guard var handshake = link.handshake else { return }
        let answer = try handshake.receive(packet.frame) { isExpected($0, on: id) }
        guard packet.link == handshake.link else { throw .malformedFrame }
        links[id]?.handshake = handshake
        transmit(answer, on: id)
        guard link.state == .handshake, let peer = handshake.authenticated else { return }
        // The user may have left the chat during the handshake.
        guard isExpected(peer, on: id) else { throw .notExpected }
        start(id, peer)
    }

    private func isExpected(_ peer: PeerID, on id: LinkID) -> Bool {
        id.isCentral ? chat == nil || peer == chat || owesGoodbye(peer) : peer == called || candidates.contains(peer)
    }

    /// Starts the conversation with a peer that knows the session.
    private mutating func start(_ id: LinkID, _ peer: PeerID) {
        let address = links[id]?.address
        if let address { devices.identify(address, as: peer) }
        // A called candidate has no pair, and a central has no address.
        let name = address.flatMap { devices[$0]?.name } ?? devices.name(of: peer, where: isWanted)
        var pair = pairs[peer] ?? Pair(name: name ?? "Unknown")
        if let old = pair.link, old != id { close(old) }
        links[id]?.open(at: now)
        pair.link = id
        let position = pair.conversation.link(frameLength: links[id]?.frameLength ?? 0)
        if peer == chat { (pair.isPeripheral, pair.hasLinked) = (!id.isCentral, true) }
        // A call that only brings the goodbye opens no chat, so the goodbye comes first.
        let goodbye =
            !id.isCentral && peer != chat && pair.conversation.undelivered == 0 ? pair.conversation.earlyGoodbye() : nil
        pairs[peer] = pair
        transmit([goodbye, position].compactMap(\.self), on: id)
    }

    private mutating func converse(_ frame: Frame, with peer: PeerID, _ id: LinkID) throws(ChatError) {
        guard var pair = pairs[peer] else { return }
        // This peer has left, or is in another chat. The message remains at the other peer.
        // This is also true for the rest of the message, if the user has opened the chat again.
        if case .text = frame,
            links[id]?.hasDiscarded == true || peer != chat && (chat != nil || pair.conversation.owesGoodbye)
        {
            links[id]?.hasDiscarded = true
            return
        }
        let wasSynchronized = pair.conversation.isSynchronized
        let outcome = try pair.conversation.receive(frame, at: now)
        if outcome.isProgress {
            links[id]?.since = now
            links[id]?.hasProgress = true
            pair.stalled = nil
        }
        pairs[peer] = pair
        for number in outcome.delivered { show(.delivered(Receipt(peer, number), to: pair.name)) }
        // If the other peer has known of the goodbye before it called, its call is a new chat.
        if outcome.isGoodbyeDelivered, wasSynchronized || !id.isCentral && peer != chat {
            return endAfterGoodbye(id, peer)
        }
        transmit(outcome.frames, on: id)
        if outcome.isGoodbye { return end(id, peer, pair.name) }
        if !wasSynchronized, pair.conversation.isSynchronized { synchronize(id, peer) }
        if let message = outcome.message {
            if chat == nil { open(peer, pair.name, links[id]?.address) }
            show(.received(from: pair.name, shown(message)))
        }
    }

    /// The positions are known. A peer that has called opens the chat.
    private mutating func synchronize(_ id: LinkID, _ peer: PeerID) {
        guard let pair = pairs[peer] else { return }
        if chat == nil, !pair.conversation.owesGoodbye, quitTime == nil { open(peer, pair.name, links[id]?.address) }
        if chat == peer {
            notice("Connected to \(pair.name).")
            closeStartingLinks(to: peer)
        } else if !pair.conversation.owesGoodbye {
            close(id)
        }
    }

    /// The other peer has left. It ends the link when it has received the acknowledgement.
    private mutating func end(_ id: LinkID, _ peer: PeerID, _ name: String) {
        if peer == chat { leave("The other peer left the chat: \(name).", .afterGoodbye) }
        guard let link = links[id] else { return }
        if let address = link.address, link.hasProgress { devices.succeed(address) }
        detach(id, link)
        links[id]?.state = .left
    }

    /// The other peer knows that this peer has left. If the user has opened the chat again, the next message calls again.
    private mutating func endAfterGoodbye(_ id: LinkID, _ peer: PeerID) {
        let address = links[id]?.address
        if let address, links[id]?.hasProgress == true { devices.succeed(address) }
        devices.endCalls(of: peer, address, at: now)
        pairs[peer]?.farewellEnd = nil
        if peer == chat {
            pairs[peer]?.isPeripheral = nil
            pairs[peer]?.hasLinked = false
        }
        close(id)
    }

    // MARK: - Ends of links

    /// Refuses a value, and ends the link.
    private mutating func refuse(_ error: ChatError, _ id: LinkID, _ link: Link) {
        actions.append(.refuse(error))
        if let peer = link.peer {
            fail(peer, link)
            if peer == chat { leave("The chat ended: \(error). Use the same version on both machines.", .goodbyeLater) }
        } else if let address = link.address,
            devices.fail(address, isStranger: error == .otherSession, at: now)
        {
            notice("Link refused: \(error).")
        }
        close(id)
    }

    /// The next attempt to a peer waits longer. Other devices may advertise the same identity, so the address is better.
    private mutating func fail(_ peer: PeerID, _ link: Link) {
        if let address = link.address { devices.fail(address, at: now) } else { devices.fail(peer, at: now) }
    }

    /// Gives up a link after its deadline.
    mutating func expire(_ id: LinkID, _ link: Link) {
        let reason = "the other peer did not answer"
        if let peer = link.peer {
            if peer == chat || owesGoodbye(peer) { fail(peer, link) }
            if peer == chat { notice("Link lost: \(reason).") }
        } else if link.isStarting, let address = link.address, devices.fail(address, at: now) {
            notice("No link: \(reason).")
        }
        close(id)
    }

    mutating func close(_ id: LinkID) {
        guard let link = links[id], link.state != .closing else { return }
        detach(id, link)
        links[id]?.state = .closing
        actions.append(.disconnect(id))
    }

    /// Ends the links that are not needed any more: a link with the peer exists, or the chat with the peer has ended.
    mutating func closeStartingLinks(to peer: PeerID) {
        for (id, link) in links where link.isStarting {
            guard let address = link.address else {
                if called == nil { close(id) }
                continue
            }
            if let other = devices[address]?.id, other != peer || owesGoodbye(peer) { continue }
            close(id)
        }
    }

    private mutating func detach(_ id: LinkID, _ link: Link) {
        guard let peer = link.peer, pairs[peer]?.link == id else { return }
        pairs[peer]?.link = nil
        pairs[peer]?.conversation.unlink()
    }

    mutating func unlink(_ id: LinkID, _ reason: String) {
        guard let link = links[id] else { return }
        detach(id, link)
        links[id] = nil
        if let peer = link.peer {
            if peer == chat { notice("Link lost: \(reason).") }
            if link.isUseful(at: now) {
                if let address = link.address { devices.succeed(address) }
            } else {
                fail(peer, link)
            }
        } else if link.isStarting, let address = link.address, devices.fail(address, at: now) {
            notice("No link: \(reason).")
        }
    }
}

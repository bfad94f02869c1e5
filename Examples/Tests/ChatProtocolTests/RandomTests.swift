import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: random conversations")
struct RandomTests {
    private static let names = ["Alice", "Bob", "Carol"]

    @Test(
        "at any order of cuts, strangers and repeated values, each message is shown once and in order, and both peers end",
        arguments: 0..<300 as Range<UInt64>)
    func chats(seed: UInt64) {
        var random = Generator(state: seed)
        var air = Air(
            Array(repeating: "public", count: 2 + Int(seed % 2)), ids: [1, 2, 3].shuffled(using: &random))
        let delays = (0..<97).map { _ in Duration.milliseconds(Int.random(in: 1...3000, using: &random)) }
        let copies = (0..<997).map { _ in Int.random(in: 0..<10, using: &random) == 0 ? 2 : 1 }
        let (nextDelay, nextCopies) = (Cycle(delays), Cycle(copies))
        air.delay = { nextDelay.next() }
        air.copies = { nextCopies.next() }
        var sent: [[String]] = [[], [], []]
        air.type(0, "Bob")
        for round in 0..<40 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0...3:
                let peer = Int.random(in: 0...1, using: &random)
                guard air.peers[peer].chatName == Self.names[1 - peer] else { break }
                let isLong = Int.random(in: 0...9, using: &random) == 0
                let length = Int.random(in: 0...(isLong ? 1000 : 60), using: &random)
                let text = "\(peer).\(round) " + String(repeating: "é", count: length)
                sent[peer].append(text)
                air.type(peer, text)
            case 4: air.cut()
            case 5: air.valuesLeft = Int.random(in: 0...12, using: &random)
            case 6:
                let stranger = [Air.Stranger.silent, .unknowing, .refusesConnections].randomElement(using: &random)
                air.call(
                    from: Air.address(Int.random(in: 20...26, using: &random)), stranger ?? .silent,
                    as: .random(using: &random) ? PeerID(.random(in: 1...3, using: &random)) : nil)
            case 7:
                let peer = Int.random(in: 0...1, using: &random)
                if Int.random(in: 0...3, using: &random) == 0 { air.type(peer, "/leave") }
            case 8 where air.peers.count == 3:
                // A third peer calls one that is in a chat, or has none.
                air.type(2, ["Alice", "Bob", "/leave", "hi"].randomElement(using: &random) ?? "")
            default: break
            }
            air.run(for: .milliseconds(Int.random(in: 0...4000, using: &random)))
            for peer in 0...1 { #expect(air.delivered(peer).count <= air.messages(1 - peer).count) }
        }
        // The strangers go. Each peer returns to the chat until everything has arrived.
        air.valuesLeft = .max
        if air.peers.count == 3 { air.type(2, "/leave") }
        air.run(for: .seconds(200))
        for _ in 0..<4 where air.peers[0].undelivered + air.peers[1].undelivered > 0 {
            for peer in 0...1 where air.peers[peer].chatName != Self.names[1 - peer] {
                air.type(peer, "/leave", Self.names[1 - peer])
            }
            air.run(for: .seconds(130))
        }
        for peer in 0...1 {
            let other = 1 - peer
            #expect(air.messages(other).filter { $0.hasPrefix("\(peer).") } == sent[peer], "\(air.notices(peer))")
            #expect(air.delivered(peer).map(\.number) == Array(1..<UInt32(sent[peer].count + 1)))
        }
        for peer in air.peers.indices { air.handle(peer, .typed("/quit")) }
        air.run(for: .seconds(3))
        #expect(!air.hasQuit.contains(false))
    }

    @Test("no order of events and values traps, and each wake is later than the one before")
    func hostileEvents() {
        // The links must open, so that the values reach all states.
        #expect((0..<200).reduce(0) { $0 + Self.openedLinks(seed: $1) } > 400)
    }

    private static func openedLinks(seed: UInt64) -> Int {
        var random = Generator(state: seed)
        var messenger = Messenger(
            PeerID(1), Session("public"), wanted: seed % 3 == 0 ? "Bob" : nil, isPiped: seed % 2 == 0,
            nonce: { Array(0..<8) })
        var (handshakes, ids, now, opened) = ([LinkID: Handshake](), [LinkID.central(1)], Duration.zero, 0)
        for _ in 0..<200 {
            let id = ids.suffix(3).randomElement(using: &random) ?? .central(1)
            var actions = messenger.handle(event(id, handshakes[id]?.link ?? [], &random), at: now)
            if let deadline = messenger.deadline, Int.random(in: 0..<8, using: &random) == 0 {
                now = max(now, deadline)
                actions += messenger.handle(.wake, at: now)
                #expect(messenger.deadline.map { $0 > now } ?? true, "seed \(seed)")
            }
            // A peer of the session answers, so that links open.
            for _ in 0..<40 where !actions.isEmpty {
                switch actions.removeFirst() {
                case .connect(let id, _):
                    let peer = PeerID(.random(in: 2...3, using: &random))
                    handshakes[id] = Handshake(Session("public"), peer, isCentral: false, nonce: Array(8..<16))
                    ids.append(id)
                    actions += messenger.handle(.linked(id, with: Air.address(9), frameLength: 18), at: now)
                case .advertise(let announcement):
                    guard case .call(let peer) = announcement.kind else { break }
                    let id = LinkID.peripheral(ids.count)
                    let handshake = Handshake(Session("public"), peer, isCentral: true, nonce: Array(0..<8))
                    handshakes[id] = handshake
                    ids.append(id)
                    actions += messenger.handle(.linked(id, with: Air.address(9), frameLength: 18), at: now)
                    let hello = Packet(Array(0..<4), handshake.hello).bytes
                    actions += messenger.handle(.received(id, hello), at: now)
                case .transmit(let id, let values):
                    for packet in values.compactMap({ try? Packet(bytes: $0) }) {
                        var answer = (try? handshakes[id]?.receive(packet.frame)) ?? []
                        if case .position = packet.frame { answer.append(.position(Position(1, 0))) }
                        for frame in answer {
                            actions += messenger.handle(.received(id, Packet(packet.link, frame).bytes), at: now)
                        }
                    }
                case .show(.notice(let text)) where text.hasPrefix("Connected"): opened += 1
                default: break
                }
            }
        }
        return opened
    }

    private static func event(_ id: LinkID, _ link: [UInt8], _ random: inout Generator) -> Messenger.Event {
        let address = Air.address(Int.random(in: 1...3, using: &random))
        let peer = PeerID(.random(in: 1...3, using: &random))
        let position = Position(.random(in: 0...3, using: &random), .random(in: 0...2, using: &random))
        let frames: [Frame] = [
            .position(Position(1, 0)), .position(position), .text(position, [0x41, 0x42], isLast: true),
            .text(position, [0x41], isLast: false), .goodbye(.random(in: 0...3, using: &random)), .proof(Array(0..<12)),
        ]
        let texts = ["hello", "Bob", "Carol", "1", "/leave", "/peers", "yes 000001", "no 000002", "/quit"]
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1:
            let kind = Bool.random(using: &random) ? Announcement.Kind.presence(peer) : .call(PeerID(1))
            return .sighted(
                address, name: ["Bob", "Carol"].randomElement(using: &random) ?? "",
                Announcement(kind, Session("public")))
        case 2: return .vanished(address)
        case 3, 4: return .typed(texts.dropLast(random.next() % 8 == 0 ? 0 : 1).randomElement(using: &random) ?? "")
        case 5, 6: return .linked(id, with: Air.address(9), frameLength: 18)
        case 7: return .unlinked(id, "cut")
        case 8:
            return .compare(Int.random(in: 0...3, using: &random), address, .random(in: 0...9, using: &random))
        case 9: return .withdrawn(Int.random(in: 0...3, using: &random))
        default: return .received(id, Packet(link, frames.randomElement(using: &random) ?? .goodbye(1)).bytes)
        }
    }
}

/// Returns its elements in turn, without an end.
private final class Cycle<Element> {
    private let elements: [Element]
    private var index = 0

    init(_ elements: [Element]) { self.elements = elements }

    func next() -> Element {
        index = (index + 1) % elements.count
        return elements[index]
    }
}

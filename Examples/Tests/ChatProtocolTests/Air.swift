import BlueZ
import ChatProtocol
import Synchronization

/// Peers, strangers, and the air between them, in virtual time. As with BlueZ, a notification reaches all centrals of a peripheral.
struct Air {
    /// A device without our program. It advertises a call with a copied tag.
    enum Stranger {
        /// Answers nothing after the connection.
        case silent
        /// Sends a hello, and a proof for another session.
        case unknowing
        case refusesConnections
    }

    private struct Link {
        let central: Int
        /// Nil: a stranger.
        let peripheral: Int?
        let number: Int
        let address: BluetoothAddress
        var isServed = false
        /// The values of both directions, in the order of their arrival. A direction does not delay the other one.
        var values: [(time: Duration, bytes: [UInt8], isWrite: Bool)] = []
        var begin: Duration?
        var end: Duration?
    }

    private static let names = ["Alice", "Bob", "Carol"]

    private(set) var now = Duration.zero
    var peers: [Messenger] = []
    private(set) var shown: [[Entry]] = []
    private(set) var attempts: [(time: Duration, peer: Int, address: BluetoothAddress)] = []
    private(set) var hasQuit: [Bool] = []
    private(set) var answers: [[Bool]] = []
    /// The number of values until all links are lost.
    var valuesLeft = Int.max
    /// Returns how many copies of a value arrive.
    var copies: () -> Int = { 1 }
    /// The time that a value needs in its direction.
    var interval = Duration.milliseconds(5)
    /// The time until a peer sees a change of an advertisement.
    var delay: () -> Duration = { .milliseconds(10) }
    private var isInRange = true
    private var advertised: [Announcement] = []
    private var strangers: [BluetoothAddress: Stranger] = [:]
    private var links: [Link] = []
    private var numbers = 0
    private var sightings: [(time: Duration, peer: Int, event: Messenger.Event)] = []

    init(
        _ sessions: [String] = ["public", "public"], ids: [UInt32] = [1, 2, 3], wanted: [String?] = [nil, nil, nil],
        isPiped: Bool = false, isInRange: Bool = true
    ) {
        for (peer, session) in sessions.enumerated() {
            let nonces = Nonces(UInt8(peer * 80))
            peers.append(
                Messenger(
                    PeerID(ids[peer]), Session(session), wanted: wanted[peer], isPiped: isPiped,
                    nonce: { nonces.next() }))
            shown.append([])
            hasQuit.append(false)
            answers.append([])
        }
        advertised = peers.map(\.announcement)
        move(inRange: isInRange)
        run(for: .seconds(1))
    }

    static func address(_ number: Int) -> BluetoothAddress {
        let digits = String(number, radix: 16)
        guard let address = BluetoothAddress("00:00:00:00:00:\(digits.count == 1 ? "0" : "")\(digits)") else {
            preconditionFailure("a number of one byte")
        }
        return address
    }

    // MARK: - What the peers do

    mutating func handle(_ peer: Int, _ event: Messenger.Event) {
        if hasQuit[peer] { return }
        for action in peers[peer].handle(event, at: now) {
            switch action {
            case .advertise(let announcement): advertise(peer, announcement)
            case .connect(let id, let address):
                guard case .central(let number) = id else { continue }
                attempts.append((now, peer, address))
                let other = peers.indices.first { Self.address($0 + 1) == address }
                links.append(
                    Link(
                        central: peer, peripheral: other, number: number, address: address,
                        begin: now + .milliseconds(100)))
            case .transmit(let id, let values): transmit(peer, id, values)
            case .disconnect(let id): if let index = index(peer, id) { end(index, after: .seconds(2)) }
            case .show(let entry): shown[peer].append(entry)
            case .answer(_, let isSame): answers[peer].append(isSame)
            case .quit:
                hasQuit[peer] = true
                for index in links.indices where links[index].central == peer || links[index].peripheral == peer {
                    end(index, after: .seconds(2))
                }
            case .refuse: break
            }
        }
    }

    private mutating func advertise(_ peer: Int, _ announcement: Announcement) {
        advertised[peer] = announcement
        for other in peers.indices where other != peer {
            // A later change arrives later.
            let last = sightings.last { $0.peer == other }?.time ?? now
            sightings.append(
                (
                    max(now + delay(), last), other,
                    .sighted(Self.address(peer + 1), name: Self.names[peer], announcement)
                ))
        }
    }

    private func index(_ peer: Int, _ id: LinkID) -> Int? {
        links.firstIndex {
            id == .central($0.number) && $0.central == peer
                || id == .peripheral($0.number * 10 + $0.central) && $0.peripheral == peer
        }
    }

    private mutating func transmit(_ peer: Int, _ id: LinkID, _ values: [[UInt8]]) {
        guard let index = index(peer, id) else { return }
        if case .central = id, links[index].peripheral == nil { return answer(index, values) }
        for value in values {
            if case .central = id {
                queue(value, index, isWrite: true)
            } else {
                for other in links.indices where links[other].peripheral == peer && links[other].begin == nil {
                    queue(value, other, isWrite: false)
                }
            }
        }
    }

    private mutating func queue(_ bytes: [UInt8], _ index: Int, isWrite: Bool) {
        let last = links[index].values.last { $0.isWrite == isWrite }?.time
        let time = max(now, last ?? now) + interval
        let place = links[index].values.lastIndex { $0.time <= time }.map { $0 + 1 } ?? 0
        links[index].values.insert(contentsOf: Array(repeating: (time, bytes, isWrite), count: copies()), at: place)
    }

    /// Answers for a stranger.
    private mutating func answer(_ index: Int, _ values: [[UInt8]]) {
        guard strangers[links[index].address] == .unknowing, let bytes = values.first, bytes.count == 18 else { return }
        let link = Array(bytes.prefix(4))
        queue(Packet(link, .hello(PeerID(99), nonce: Array(0..<8))).bytes, index, isWrite: false)
        queue(Packet(link, .proof(Array(0..<12))).bytes, index, isWrite: false)
    }

    // MARK: - What happens to them

    mutating func type(_ peer: Int, _ texts: String...) {
        for text in texts { handle(peer, .typed(text)) }
        run(for: .seconds(1))
    }

    /// A stranger calls all peers, with the tag of their session and with the identity of a peer.
    mutating func call(
        from address: BluetoothAddress, _ stranger: Stranger, as identity: PeerID? = nil, name: String = "Mallory"
    ) {
        strangers[address] = stranger
        for peer in peers.indices {
            var kinds = [Announcement.Kind.call(peers[peer].id)]
            if let identity { kinds.insert(.presence(identity), at: 0) }
            for kind in kinds {
                var announcement = Announcement(kind, Session("another session"))
                announcement.tag = peers[peer].announcement.tag
                handle(peer, .sighted(address, name: name, announcement))
            }
        }
    }

    /// Ends all links, or the links of a peer.
    mutating func cut(_ peer: Int? = nil) {
        for index in links.indices where peer == nil || links[index].central == peer || links[index].peripheral == peer
        {
            links[index].values = []
            links[index].begin = nil
            links[index].end = now
        }
        run(for: .milliseconds(1))
    }

    /// Ends the program of a peer without a goodbye, and starts it again. It is a new peer.
    mutating func restart(_ peer: Int, as id: PeerID) {
        cut(peer)
        let nonces = Nonces(200)
        peers[peer] = Messenger(id, Session("public"), nonce: { nonces.next() })
        advertise(peer, peers[peer].announcement)
    }

    /// Moves the peers in range of each other, or out of it. All links are lost.
    mutating func move(inRange: Bool) {
        isInRange = inRange
        cut()
        for (peer, announcement) in advertised.enumerated() where inRange { advertise(peer, announcement) }
    }

    private mutating func end(_ index: Int, after time: Duration) {
        links[index].end = min(links[index].end ?? .seconds(1 << 30), now + time)
    }

    mutating func run(for time: Duration) {
        let end = now + time
        while let next = nextTime, next <= end {
            now = max(now, next)
            step()
        }
        now = end
    }

    private var nextTime: Duration? {
        let times =
            links.flatMap { [$0.begin, $0.end, $0.values.first?.time] } + sightings.map(\.time)
            + peers.indices.map { hasQuit[$0] ? nil : peers[$0].deadline }
        return times.compactMap(\.self).min()
    }

    /// Performs one thing that is due.
    private mutating func step() {
        if let index = sightings.indices.filter({ sightings[$0].time <= now }).min() {
            let sighting = sightings.remove(at: index)
            if isInRange { handle(sighting.peer, sighting.event) }
        } else if let index = links.firstIndex(where: { $0.values.first.map { $0.time <= now } ?? false }) {
            deliver(index)
        } else if let index = links.firstIndex(where: { $0.end.map { $0 <= now } ?? false }) {
            let link = links.remove(at: index)
            handle(link.central, .unlinked(.central(link.number), "cut"))
            if let other = link.peripheral, link.isServed { handle(other, .unlinked(Self.served(link), "cut")) }
        } else if let index = links.firstIndex(where: { $0.begin.map { $0 <= now } ?? false }) {
            links[index].begin = nil
            if links[index].peripheral == nil ? strangers[links[index].address] == .refusesConnections : !isInRange {
                end(index, after: .seconds(10))
            } else {
                let link = links[index]
                handle(link.central, .linked(.central(link.number), with: link.address, frameLength: 18))
            }
        } else if let peer = peers.indices.first(where: {
            !hasQuit[$0] && peers[$0].deadline.map { $0 <= now } ?? false
        }) {
            handle(peer, .wake)
        }
    }

    private static func served(_ link: Link) -> LinkID { .peripheral(link.number * 10 + link.central) }

    private mutating func deliver(_ index: Int) {
        let value = links[index].values.removeFirst()
        guard valuesLeft > 0 else {
            valuesLeft = .max
            return cut()
        }
        valuesLeft -= 1
        let link = links[index]
        guard value.isWrite else { return handle(link.central, .received(.central(link.number), value.bytes)) }
        guard let other = link.peripheral else { return }
        if !link.isServed {
            links[index].isServed = true
            handle(other, .linked(Self.served(link), with: Self.address(link.central + 1), frameLength: 18))
        }
        handle(other, .received(Self.served(link), value.bytes))
    }

    // MARK: - What they show

    func messages(_ peer: Int) -> [String] {
        shown[peer].compactMap { if case .received(_, let text) = $0 { text } else { nil } }
    }

    func hasSent(_ peer: Int) -> Bool { shown[peer].contains { if case .sent = $0 { true } else { false } } }

    func delivered(_ peer: Int) -> [Receipt] {
        shown[peer].compactMap { if case .delivered(let message, _) = $0 { message } else { nil } }
    }

    func notices(_ peer: Int) -> [String] {
        shown[peer].compactMap { if case .notice(let text) = $0 { text } else { nil } }
    }
}

/// Nonces that differ, and that are the same in each run.
private final class Nonces: Sendable {
    private let last: Mutex<UInt8>

    init(_ first: UInt8) { last = Mutex(first) }

    func next() -> [UInt8] {
        last.withLock {
            $0 &+= 1
            return Array(repeating: $0, count: 8)
        }
    }
}

import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: two peers")
struct MessengerTests {
    private static let addresses = [1, 2].compactMap { BluetoothAddress("00:00:00:00:00:0\($0)") }

    /// Two messengers and the air between them.
    private struct Air {
        var peers: [Messenger]
        var shown: [[Entry]] = [[], []]
        var central: Int?
        private var isServed = false
        private var queues: [[[UInt8]]] = [[], []]
        var attempts: [Duration] = []
        /// The number of frames until the link is lost.
        var framesLeft = Int.max

        init(_ sessions: [String] = ["public", "public"], ids: [UInt32] = [1, 2]) {
            peers = zip(ids, sessions).map { Messenger(PeerID($0), Session($1), nonce: { Array(0..<8) }) }
            for peer in 0...1 { advertise(peer, peers[peer].announcement) }
            settle()
        }

        mutating func handle(_ peer: Int, _ event: Messenger.Event) {
            for action in peers[peer].handle(event) {
                switch action {
                case .advertise(let announcement): advertise(peer, announcement)
                case .connect(_, let delay):
                    attempts.append(delay)
                    (central, isServed) = (peer, false)
                    handle(peer, .linked(asCentral: true, frameLength: 18))
                case .transmit(let frames): if central != nil { queues[peer] += frames.map(\.bytes) }
                case .disconnect:
                    settle()
                    cut()
                case .show(let entry): shown[peer].append(entry)
                case .refuse, .answer, .quit: break
                }
            }
        }

        private mutating func advertise(_ peer: Int, _ announcement: Announcement) {
            handle(
                1 - peer,
                .sighted(MessengerTests.addresses[peer], name: ["Alice", "Bob"][peer], announcement))
        }

        /// Passes frames until none is left.
        mutating func settle() {
            while let peer = queues.firstIndex(where: { !$0.isEmpty }) {
                guard framesLeft > 0 else {
                    framesLeft = .max
                    cut()
                    continue
                }
                framesLeft -= 1
                let bytes = queues[peer].removeFirst()
                if peer == central, !isServed {
                    isServed = true
                    handle(1 - peer, .linked(asCentral: false, frameLength: 18))
                }
                handle(1 - peer, .received(bytes))
            }
        }

        mutating func cut() {
            guard let linked = central else { return }
            let served = isServed
            central = nil
            queues = [[], []]
            if served { handle(1 - linked, .unlinked("cut")) }
            handle(linked, .unlinked("cut"))
        }

        mutating func type(_ peer: Int, _ texts: String...) {
            for text in texts { handle(peer, .typed(text)) }
            settle()
        }

        func messages(_ peer: Int) -> [String] {
            shown[peer].compactMap { if case .received(_, let text) = $0 { text } else { nil } }
        }

        func delivered(_ peer: Int) -> [UInt32] {
            shown[peer].compactMap { if case .delivered(let number) = $0 { number } else { nil } }
        }
    }

    @Test("the peer that writes first is the peripheral, for either peer", arguments: [0, 1])
    func writerIsPeripheral(writer: Int) {
        var air = Air()
        #expect(air.peers[writer].peers.map(\.name) == [["Bob", "Alice"][writer]])
        air.type(writer, "1", "hello")
        #expect(air.central == 1 - writer)
        air.type(1 - writer, "hi")
        #expect(air.messages(1 - writer) == ["hello"] && air.messages(writer) == ["hi"])
        #expect(air.delivered(0) == [1] && air.delivered(1) == [1])
        #expect(air.peers.allSatisfy { $0.isOpen && !$0.hasUndelivered })
    }

    @Test("if both peers write first at the same time, the peer with the smaller number is the central")
    func breaksTies() {
        var air = Air(ids: [9, 4])
        air.handle(0, .typed("Bob"))
        air.handle(1, .typed("Alice"))
        air.handle(0, .typed("hello"))
        air.handle(1, .typed("hi"))
        air.settle()
        #expect(air.central == 1)
        #expect(air.messages(0) == ["hi"] && air.messages(1) == ["hello"])
    }

    @Test("all messages arrive once, although the link is lost after each possible number of frames", arguments: 1...40)
    func survivesCuts(frames: Int) {
        var air = Air()
        let long = String(repeating: "é", count: 100)
        air.framesLeft = frames
        air.type(0, "Bob", "one", long)
        air.type(1, "two", long + "!")
        air.cut()
        air.settle()
        air.type(0, "end")
        #expect(air.messages(1) == ["one", long, "end"] && air.messages(0) == ["two", long + "!"])
        #expect(air.delivered(0) == [1, 2, 3] && air.delivered(1) == [1, 2])
    }

    @Test(
        "after both peers have left the chat, either one can call, and the numbers of the messages continue",
        arguments: [true, false])
    func leaves(afterLink: Bool) {
        var air = Air()
        // The first chat ends after the link, or before it.
        if afterLink {
            air.type(0, "Bob", "one")
            air.type(0, "/leave")
        } else {
            air.type(0, "Bob", "one", "/leave")
        }
        #expect(air.peers.allSatisfy { $0.chatName == nil } && air.central == nil)
        air.type(1, "Alice", "two")
        #expect(air.central == 0)
        air.type(0, "three")
        #expect(air.messages(1) == ["one", "three"] && air.messages(0) == ["two"] && air.delivered(0) == [1, 2])
    }

    @Test("a peer of another session is not listed, and its call is not answered")
    func ignoresOtherSessions() {
        var air = Air(["red", "blue"])
        #expect(air.peers[0].peers.isEmpty && air.peers[1].peers.isEmpty)
        air.type(0, "Bob")
        #expect(air.shown[0].last == .notice("No peer Bob is in range."))
    }

    @Test("a device that advertises the session, but does not know it, gets no message and no second link")
    func refusesStrangers() {
        var messenger = Messenger(PeerID(1), Session("red"))
        let address = Self.addresses[1]
        var presence = Announcement(.presence(PeerID(7)), Session("blue"))
        var call = Announcement(.call(PeerID(1)), Session("blue"))
        presence.tag = messenger.announcement.tag
        call.tag = presence.tag
        _ = messenger.handle(.sighted(address, name: "Bob", presence))
        #expect(messenger.peers.map(\.name) == ["Bob"])
        #expect(messenger.handle(.sighted(address, name: "Bob", call)) == [.connect(address, after: .zero)])
        _ = messenger.handle(.linked(asCentral: true, frameLength: 18))
        _ = messenger.handle(.received(Frame.hello(PeerID(7), nonce: Array(0..<8)).bytes))
        let actions = messenger.handle(.received(Frame.proof([UInt8](repeating: 7, count: 16)).bytes))
        #expect(actions.contains(.disconnect) && actions.contains(.refuse(.otherSession)))
        #expect(messenger.chatName == nil)
        #expect(messenger.handle(.unlinked("closed")) == [])
        _ = messenger.handle(.sighted(address, name: "Bob", presence))
        #expect(messenger.handle(.sighted(address, name: "Bob", call)) == [])
    }

    @Test("a central that writes without being called is refused")
    func refusesUncalledCentrals() {
        var messenger = Messenger(PeerID(1), Session("public"))
        _ = messenger.handle(.linked(asCentral: false, frameLength: 18))
        let actions = messenger.handle(.received(Frame.hello(PeerID(7), nonce: Array(0..<8)).bytes))
        #expect(actions.contains(.refuse(.notExpected)) && actions.contains(.disconnect))
    }

    @Test("attempts that fail are repeated after 0.5 s, 1 s, and so on up to 8 s")
    func waitsBetweenAttempts() {
        var messenger = Messenger(PeerID(1), Session("public"))
        let call = Announcement(.call(PeerID(1)), Session("public"))
        var delays: [Duration] = []
        var actions = messenger.handle(.sighted(Self.addresses[1], name: "Bob", call))
        for _ in 0..<7 {
            for case .connect(_, let delay) in actions { delays.append(delay) }
            actions = messenger.handle(.unlinked("no answer"))
        }
        #expect(delays == [0, 500, 1000, 2000, 4000, 8000, 8000].map { .milliseconds($0) })
        #expect(messenger.handle(.vanished(Self.addresses[1])).isEmpty)
    }

    @Test("a peer with a wanted name gets the messages that were typed before it was in range")
    func waitsForTheWantedPeer() {
        var messenger = Messenger(PeerID(1), Session("public"), wanted: "Bob")
        _ = messenger.handle(.typed("early"))
        #expect(messenger.hasUndelivered)
        let presence = Announcement(.presence(PeerID(7)), Session("public"))
        let actions = messenger.handle(.sighted(Self.addresses[1], name: "Bob", presence))
        #expect(actions.contains(.show(.sent(1, "early"))))
        #expect(actions.contains(.advertise(Announcement(.call(PeerID(7)), Session("public")))))
    }

    @Test("only yes and no answer the comparison of a number, which has six digits")
    func asks() {
        var messenger = Messenger(PeerID(1), Session("public"))
        let question = "Does the other peer show 000042? yes or no"
        #expect(messenger.handle(.compare(42)) == [.show(.notice(question))])
        #expect(messenger.handle(.typed("maybe")) == [.show(.notice("No peer maybe is in range."))])
        #expect(messenger.handle(.typed("yes")) == [.answer(true)])
        #expect(messenger.handle(.typed("no")) == [.show(.notice("No peer no is in range."))])
    }

    @Test("after a refused comparison, the call of the other peer is not answered again until it has ended")
    func refuses() {
        var messenger = Messenger(PeerID(1), Session("public"))
        let address = Self.addresses[1]
        let call = Announcement(.call(PeerID(1)), Session("public"))
        let presence = Announcement(.presence(PeerID(7)), Session("public"))
        #expect(messenger.handle(.sighted(address, name: "Bob", call)) == [.connect(address, after: .zero)])
        _ = messenger.handle(.compare(123_456))
        #expect(messenger.handle(.typed("no")).prefix(1) == [.answer(false)])
        #expect(messenger.handle(.unlinked("cancelled")) == [])
        #expect(messenger.handle(.sighted(address, name: "Bob", call)) == [])
        _ = messenger.handle(.sighted(address, name: "Bob", presence))
        #expect(messenger.handle(.sighted(address, name: "Bob", call)) == [.connect(address, after: .zero)])
    }
}

import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: a named peer, and the end of the input")
struct WantedTests {
    @Test(
        "a peer with a wanted name or address gets the messages that were typed before, and no other peer gets them",
        arguments: ["Bob", "00:00:00:00:00:02"])
    func waits(wanted: String) {
        var air = Air(["public", "public", "public"], wanted: [nil, nil, nil])
        air.peers[0] = Messenger(PeerID(1), Session("public"), wanted: wanted)
        air.type(0, "early")
        #expect(air.peers[0].undelivered == 1)
        // Carol calls before Bob is in range.
        air.type(2, "Alice", "hello from Carol")
        air.run(for: .seconds(10))
        #expect(air.attempts.isEmpty && air.messages(0) == [] && air.peers[0].chatName == nil)
        let presence = Announcement(.presence(PeerID(2)), Session("public"))
        air.handle(0, .sighted(Air.address(2), name: "Bob", presence))
        air.run(for: .seconds(2))
        #expect(air.messages(1) == ["early"] && air.messages(2) == [] && air.peers[0].chatName == "Bob")
        #expect(air.notices(0) == ["Chat with Bob.", "Connected to Bob."])
    }

    @Test(
        "impostors with the wanted name and tag get no message, and the wanted peer gets its turn",
        arguments: [Air.Stranger.silent, .unknowing, .refusesConnections])
    func callsInTurn(stranger: Air.Stranger) {
        var air = Air(wanted: ["Bob", nil, nil], isInRange: false)
        for number in 9...11 { air.call(from: Air.address(number), stranger, as: PeerID(UInt32(number)), name: "Bob") }
        air.type(0, "early")
        let impostor = Frame.hello(PeerID(9), nonce: [UInt8](repeating: 200, count: 8))
        let wrong = [impostor, .proof(Array(0..<12)), .position(Position(1, 0))]
        air.handle(0, .linked(.peripheral(77), with: Air.address(9), frameLength: 18))
        for frame in wrong {
            air.handle(0, .received(.peripheral(77), Packet([200, 200, 200, 200], frame).bytes))
        }
        air.run(for: .seconds(200))
        #expect(air.peers[0].chatName == nil && air.peers[0].undelivered == 1 && !air.hasSent(0))
        air.move(inRange: true)
        air.run(for: .seconds(100))
        #expect(air.messages(1) == ["early"] && air.delivered(0) == [Receipt(PeerID(2), 1)])
        #expect(air.peers[0].undelivered == 0)
    }

    @Test("a call to a wanted peer that never answers is reported after 15, 30, 60 and 120 s")
    func stillCalling() {
        var air = Air(wanted: ["Bob", nil, nil], isInRange: false)
        let presence = Announcement(.presence(PeerID(9)), Session("public"))
        air.handle(0, .sighted(Air.address(9), name: "Bob", presence))
        air.run(for: .seconds(100))
        #expect(air.notices(0) == [])
        air.type(0, "early")
        air.run(for: .seconds(200))
        let notices = [15, 30, 60, 120].map {
            "No link after \($0) s: Bob does not answer. Still trying; Control-C ends the program."
        }
        #expect(air.notices(0) == notices && air.peers[0].undelivered == 1)
    }

    @Test("with a wanted address, a peer with another address is not called and not accepted")
    func impostorsWithAnotherAddress() {
        let (wanted, impostor) = (Air.address(2), Air.address(9))
        var alice = Messenger(PeerID(1), Session("public"), wanted: "\(wanted)")
        func advertise(_ address: BluetoothAddress, _ name: String, _ id: PeerID) {
            _ = alice.handle(.sighted(address, name: name, Announcement(.presence(id), Session("public"))), at: .zero)
        }
        advertise(impostor, "\(wanted)", PeerID(9))
        _ = alice.handle(.typed("secret"), at: .zero)
        #expect(alice.announcement.kind == .presence(PeerID(1)))
        advertise(wanted, "Bob", PeerID(2))
        #expect(alice.announcement.kind == .call(PeerID(2)))
        let (first, second) = (LinkID.peripheral(1), LinkID.peripheral(2))
        #expect(alice.handle(.linked(first, with: impostor, frameLength: 18), at: .zero) == [.disconnect(first)])
        #expect(alice.handle(.linked(second, with: wanted, frameLength: 18), at: .zero) == [])
    }

    @Test("with a wanted address, a device with another address and the identity of the peer is not called back")
    func impostorsOfAnOpenChat() {
        var air = Air(wanted: ["\(Air.address(2))", nil, nil])
        air.type(0, "early")
        air.run(for: .seconds(2))
        #expect(air.messages(1) == ["early"])
        air.move(inRange: false)
        // The link is lost, and later the other peer does not know that this peer has left.
        for command in ["", "/leave"] {
            air.type(0, command)
            air.call(from: Air.address(9), .unknowing, as: PeerID(2), name: "Bob")
            air.run(for: .seconds(10))
        }
        #expect(!air.attempts.contains { $0.peer == 0 })
    }

    @Test("messages for a peer that is not in range are reported, with the way to end the program")
    func waitsForAPeer() {
        var air = Air(wanted: ["Dora", nil, nil])
        air.type(0, "early")
        air.run(for: .seconds(15))
        let notice = "No link after 15 s: Dora is not in range. Still trying; Control-C ends the program."
        #expect(air.notices(0) == [notice])
    }

    @Test("the wanted peer may call first, while an impostor with its name is called")
    func answersDuringATurn() {
        var air = Air(wanted: ["Bob", nil, nil], isInRange: false)
        let presence = Announcement(.presence(PeerID(9)), Session("public"))
        air.handle(0, .sighted(Air.address(9), name: "Bob", presence))
        air.move(inRange: true)
        air.run(for: .seconds(1))
        air.type(0, "early")
        #expect(air.peers[0].announcement.kind == .call(PeerID(9)))
        air.type(1, "Alice", "hello")
        air.run(for: .seconds(12))
        #expect(air.messages(0) == ["hello"] && air.messages(1) == ["early"])
    }

    @Test("after the chat with the wanted peer, no other peer can open a chat")
    func remainsWithOnePeer() {
        var air = Air(["public", "public", "public"], wanted: ["Bob", nil, nil])
        air.type(0, "hello")
        air.run(for: .seconds(10))
        #expect(air.messages(1) == ["hello"] && air.peers[1].chatName == "Alice")
        air.type(1, "/leave")
        air.run(for: .seconds(5))
        #expect(air.peers[0].chatName == nil)
        air.type(2, "Alice", "hello from Carol")
        air.run(for: .seconds(10))
        air.type(0, "secret for Bob", "Carol")
        air.run(for: .seconds(2))
        #expect(air.peers[0].chatName == nil && air.messages(0) == [] && air.messages(2) == [])
        #expect(air.peers[0].refusedLines == 2 && air.notices(0).last == "This program chats only with Bob.")
        air.type(0, "Bob", "again")
        air.run(for: .seconds(5))
        #expect(air.messages(1) == ["hello", "again"])
    }

    @Test("a piped line after an outage is a message to the wanted peer, and is sent when this peer is in range again")
    func keepsPipedLines() {
        var air = Air(wanted: ["Bob", nil, nil], isPiped: true)
        air.type(0, "one")
        air.run(for: .seconds(2))
        air.move(inRange: false)
        air.type(0, "two")
        air.run(for: .seconds(130))
        #expect(air.notices(0).contains("The chat ended: Bob did not answer for 120 s."))
        air.type(0, "three", "Bob", "1")
        air.handle(0, .inputEnded)
        air.run(for: .seconds(60))
        #expect(air.peers[0].undelivered == 4 && air.peers[0].refusedLines == 0 && !air.hasQuit[0])
        #expect(air.notices(0).last?.hasPrefix("No link after 60 s: Bob does not answer.") == true)
        air.move(inRange: true)
        air.run(for: .seconds(60))
        #expect(air.messages(1) == ["one", "two", "three", "Bob", "1"])
        #expect(air.hasQuit[0] && air.peers[0].undelivered == 0)
    }

    @Test(
        "a piped line after the end of a chat is a message to the wanted peer, and calls it again",
        arguments: [[(1, "/leave")], [(0, "/leave")], [(1, "/leave"), (1, "Alice")], [(0, "two"), (0, "/leave")]])
    func callsAgainForPipedLines(end: [(peer: Int, line: String)]) {
        var air = Air(wanted: ["Bob", nil, nil], isPiped: true)
        air.type(0, "one")
        air.run(for: .seconds(2))
        for (peer, line) in end { air.handle(peer, .typed(line)) }
        air.run(for: .seconds(1))
        air.type(0, "Carol", "last")
        air.handle(0, .inputEnded)
        air.run(for: .seconds(60))
        #expect(air.messages(1).suffix(2) == ["Carol", "last"] && air.messages(1).first == "one")
        #expect(air.hasQuit[0] && air.peers[0].undelivered == 0 && air.peers[0].refusedLines == 0)
    }

    @Test("piped lines after an outage go to the wanted peer that was started again, and the lost ones count")
    func keepsPipedLinesForANewIdentity() {
        var air = Air(wanted: ["Bob", nil, nil], isPiped: true)
        air.type(0, "one")
        air.run(for: .seconds(2))
        air.move(inRange: false)
        air.type(0, "two")
        air.run(for: .seconds(130))
        air.restart(1, as: PeerID(7))
        air.handle(0, .typed("three"))
        air.handle(0, .inputEnded)
        air.move(inRange: true)
        air.run(for: .seconds(60))
        #expect(air.messages(1) == ["one", "three"] && air.hasQuit[0] && air.peers[0].undelivered == 1)
    }

    @Test("the program quits when the last message has arrived, and the other peer gets the goodbye")
    func quits() {
        var air = Air()
        for text in ["Bob", "one", "two"] { air.handle(0, .typed(text)) }
        air.handle(0, .inputEnded)
        air.run(for: .seconds(5))
        #expect(air.hasQuit[0] && air.peers[0].undelivered == 0 && air.peers[0].refusedLines == 0)
        #expect(air.messages(1) == ["one", "two"] && air.notices(1).last == "The other peer left the chat: Alice.")
    }

    @Test("if the other peer leaves first, the program quits and counts the messages that have not arrived")
    func countsAfterGoodbye() {
        var air = Air()
        air.type(0, "Bob", "one")
        air.move(inRange: false)
        air.handle(0, .typed("two"))
        air.handle(0, .typed("three"))
        air.handle(0, .inputEnded)
        air.type(1, "/leave")
        #expect(!air.hasQuit[0])
        air.move(inRange: true)
        air.run(for: .seconds(40))
        #expect(air.hasQuit[0] && air.peers[0].undelivered == 2)
        #expect(
            air.notices(0).suffix(2) == ["The other peer left the chat: Bob.", "Not delivered: 2 messages to Bob."])
    }

    @Test("a peer keeps the name of its first advertisement, because bluetoothd replaces the name after a connection")
    func keepsTheName() {
        var air = Air()
        let (address, session) = (Air.address(7), Session("public"))
        for name in ["\(address)", "Dora", "BlueZ 5.66"] {
            air.handle(0, .sighted(address, name: name, Announcement(.presence(PeerID(7)), session)))
        }
        #expect(air.peers[0].peers.map(\.name) == ["Bob", "Dora"])
        // The program was started again.
        air.handle(0, .sighted(address, name: "Eve", Announcement(.presence(PeerID(8)), session)))
        air.handle(0, .sighted(address, name: "BlueZ 5.66", Announcement(.call(PeerID(1)), session)))
        #expect(air.peers[0].peers.map(\.name) == ["Bob", "Eve"])
    }

    @Test("lines that are not sent count, too")
    func countsRefusedLines() {
        var air = Air()
        air.type(0, "Carol", "Bob", String(repeating: "x", count: Conversation.maximumLength + 1))
        #expect(air.peers[0].refusedLines == 2)
        air.handle(0, .inputEnded)
        #expect(air.hasQuit[0] && air.peers[0].undelivered == 0)
    }

    @Test("a peer that quits with messages on their way sends the goodbye before them, and quits within 2 s")
    func quitsAtOnce() {
        var air = Air()
        air.type(0, "Bob", "one")
        air.handle(0, .typed(String(repeating: "x", count: 5000)))
        air.type(0, "two", "/quit")
        air.run(for: .seconds(4))
        #expect(air.hasQuit[0] && air.peers[0].undelivered == 2)
        #expect(air.peers[1].chatName == nil && air.notices(1).last == "The other peer left the chat: Alice.")
    }
}

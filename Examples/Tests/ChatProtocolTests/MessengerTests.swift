import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: two peers")
struct MessengerTests {
    private static let address = Air.address(2)

    @Test("the peer that writes first is the peripheral, for either peer", arguments: [0, 1])
    func writerIsPeripheral(writer: Int) {
        var air = Air()
        #expect(air.peers[writer].peers.map(\.name) == [["Bob", "Alice"][writer]])
        air.type(writer, "1", "hello")
        #expect(air.attempts.map(\.peer) == [1 - writer])
        air.type(1 - writer, "hi")
        #expect(air.messages(1 - writer) == ["hello"] && air.messages(writer) == ["hi"])
        #expect(air.delivered(0) == [Receipt(PeerID(2), 1)] && air.delivered(1) == [Receipt(PeerID(1), 1)])
        #expect(air.peers.allSatisfy { $0.isOpen && $0.undelivered == 0 && $0.deadline == nil })
    }

    @Test("if both peers write first at the same time, the peer with the smaller number is the central")
    func breaksTies() {
        var air = Air(ids: [9, 4])
        air.handle(0, .typed("Bob"))
        air.handle(1, .typed("Alice"))
        air.handle(0, .typed("hello"))
        air.type(1, "hi")
        #expect(air.attempts.map(\.peer) == [1])
        #expect(air.messages(0) == ["hi"] && air.messages(1) == ["hello"])
    }

    @Test("all messages arrive once, although the link is lost after each possible number of values", arguments: 1...50)
    func survivesCuts(values: Int) {
        var air = Air()
        let long = String(repeating: "é", count: 60)
        air.valuesLeft = values
        air.type(0, "Bob", "one", long)
        air.type(1, "two", long + "!")
        air.cut()
        air.run(for: .seconds(2))
        air.type(0, "end")
        air.run(for: .seconds(5))
        #expect(air.messages(1) == ["one", long, "end"] && air.messages(0) == ["two", long + "!"])
        #expect(air.delivered(0).map(\.number) == [1, 2, 3] && air.delivered(1).map(\.number) == [1, 2])
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
            #expect(air.notices(0).last == "Not delivered: 1 message to Bob.")
        }
        #expect(air.peers.allSatisfy { $0.chatName == nil && !$0.isOpen })
        air.type(1, "Alice", "two")
        air.run(for: .seconds(10))
        air.type(0, "three")
        #expect(air.messages(1) == ["one", "three"] && air.messages(0) == ["two"])
        #expect(air.delivered(0).map(\.number) == [1, 2])
    }

    @Test(
        "a peer can leave and open the chat again at once while a long message arrives, which then arrives whole",
        arguments: [0, 1], [nil, "short", String(repeating: "x", count: 5000)])
    func opensAgain(leaver: Int, own: String?) {
        var air = Air()
        let names = ["Alice", "Bob"]
        air.type(0, "Bob", "one")
        air.type(1, "two")
        let long = String(repeating: "é", count: 1500)
        air.handle(1 - leaver, .typed(long))
        air.run(for: .milliseconds(500))
        // A message that is on its way keeps the goodbye back.
        if let own { air.handle(leaver, .typed(own)) }
        air.handle(leaver, .typed("/leave"))
        air.run(for: .milliseconds(22))
        air.type(leaver, names[1 - leaver])
        air.run(for: .seconds(10))
        if air.peers[1 - leaver].chatName == nil { air.type(1 - leaver, names[leaver]) }
        air.run(for: .seconds(10))
        #expect(air.messages(leaver).last == long && air.peers.allSatisfy(\.isOpen))
        if let own { #expect(air.messages(1 - leaver).last == own) }
        for notices in [air.notices(0), air.notices(1)] {
            #expect(!notices.contains { $0.hasPrefix("The chat ended") || $0.hasPrefix("Link refused") }, "\(notices)")
        }
    }

    @Test("a peer can leave and call again at once, although the other peer has not seen the end of the call")
    func callsAgain() {
        var air = Air()
        air.type(0, "Bob", "one")
        air.delay = { .seconds(5) }
        air.type(0, "/leave")
        #expect(air.notices(1).last == "The other peer left the chat: Alice.")
        air.type(0, "Bob", "two")
        air.run(for: .seconds(15))
        #expect(air.messages(1) == ["one", "two"] && air.peers.allSatisfy(\.isOpen))
        #expect(!air.notices(1).contains { $0.hasPrefix("No link") || $0.hasPrefix("Link refused") })
    }

    @Test(
        "a peer that the other one has left can call it at once, while their link is still ending", arguments: [0, 1])
    func callsDuringTheEnd(leaver: Int) {
        var air = Air()
        air.type(0, "Bob", "one")
        air.handle(leaver, .typed("/leave"))
        air.run(for: .milliseconds(20))
        #expect(air.notices(1 - leaver).last == "The other peer left the chat: \(["Alice", "Bob"][leaver]).")
        air.type(1 - leaver, ["Bob", "Alice"][1 - leaver], "two")
        air.run(for: .seconds(5))
        #expect(air.messages(leaver).last == "two" && !air.notices(1 - leaver).contains { $0.hasPrefix("Link lost") })
    }

    @Test("the number of a peer never becomes the number of another one, and a name of several peers selects none")
    func numbersAndNames() {
        var alice = Messenger(PeerID(1), Session("public"))
        for (number, name) in [(2, "Bob"), (3, "Carol"), (4, "Ann"), (5, "Bob")] {
            let presence = Announcement(.presence(PeerID(UInt32(number))), Session("public"))
            _ = alice.handle(.sighted(Air.address(number), name: name, presence), at: .zero)
        }
        #expect(alice.peers.map { "\($0.number) \($0.name)" } == ["1 Bob", "2 Carol", "3 Ann", "4 Bob"])
        _ = alice.handle(.typed("Bob"), at: .zero)
        #expect(alice.chatName == nil && alice.refusedLines == 1)
        _ = alice.handle(.vanished(Air.address(2)), at: .zero)
        _ = alice.handle(.typed("1"), at: .zero)
        #expect(alice.chatName == nil && alice.refusedLines == 2)
        _ = alice.handle(.typed("2"), at: .zero)
        #expect(alice.chatName == "Carol")
    }

    @Test("a peer of another session is not listed, and its call is not answered")
    func ignoresOtherSessions() {
        var air = Air(["red", "blue"])
        #expect(air.peers[0].peers.isEmpty && air.peers[1].peers.isEmpty)
        air.type(0, "Bob")
        #expect(air.shown[0].last == .notice("No peer Bob is in range. Type /peers for the list."))
    }

    @Test("a central that writes without being called is refused until its link ends")
    func refusesUncalledCentrals() {
        var messenger = Messenger(PeerID(1), Session("public"))
        let hello = Packet([0, 1, 2, 3], .hello(PeerID(7), nonce: Array(0..<8))).bytes
        let id = LinkID.peripheral(1)
        #expect(messenger.handle(.linked(id, with: Air.address(9), frameLength: 18), at: .zero) == [.disconnect(id)])
        for _ in 0..<2 {
            #expect(messenger.handle(.received(id, hello), at: .zero) == [.refuse(.notExpected)])
        }
        #expect(messenger.handle(.unlinked(id, "closed"), at: .zero) == [])
    }

    @Test("attempts that fail are repeated after 0.5 s, 1 s, and so on up to 30 s, with one notice")
    func waitsBetweenAttempts() {
        var air = Air()
        air.call(from: Air.address(9), .refusesConnections)
        air.run(for: .seconds(200))
        let times = air.attempts.filter { $0.peer == 0 }.map(\.time)
        let expected = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000].map { Duration.milliseconds($0) }
        // Each attempt takes 10.1 s.
        let waits = zip(times, times.dropFirst()).map { $1 - $0 - .milliseconds(10_100) }
        #expect(Array(waits.prefix(8)) == expected)
        #expect(air.notices(0) == ["No link: cut."])
    }

    @Test("only yes and no with the number answer the comparison of a number, which has six digits")
    func asks() {
        var messenger = Messenger(PeerID(1), Session("public"))
        let question =
            "Does the other device show 000042? Type yes 000042 or no 000042. "
            + "It is the unknown device 00:00:00:00:00:02"
        func unknown(_ text: String) -> [Messenger.Action] {
            [.show(.notice("No peer \(text) is in range. Type /peers for the list."))]
        }
        #expect(messenger.handle(.compare(7, Self.address, 42), at: .zero) == [.show(.notice(question))])
        for text in ["maybe", "yes", "no", "yes 42", "yes 000043"] {
            #expect(messenger.handle(.typed(text), at: .zero) == unknown(text))
        }
        #expect(messenger.handle(.typed("yes 000042"), at: .zero) == [.answer(7, true)])
        #expect(messenger.handle(.typed("no 000042"), at: .zero) == unknown("no 000042"))
    }

    @Test("two comparisons at the same time are shown one after the other, and each has its own answer")
    func asksTwice() {
        var messenger = Messenger(PeerID(1), Session("public"))
        let other = Air.address(3)
        _ = messenger.handle(.compare(1, Self.address, 111_111), at: .zero)
        #expect(messenger.handle(.compare(2, other, 222_222), at: .zero) == [])
        #expect(messenger.handle(.compare(3, other, 333_333), at: .zero) == [])
        func question(_ number: String) -> Messenger.Action {
            .show(
                .notice(
                    "Does the other device show \(number)? Type yes \(number) or no \(number). "
                        + "It is the unknown device \(other)"
                ))
        }
        #expect(messenger.handle(.typed("yes 111111"), at: .zero) == [.answer(1, true), question("222222")])
        // The pairing has ended without an answer.
        #expect(messenger.handle(.withdrawn(2), at: .zero) == [question("333333")])
        let refused = Messenger.Action.show(.notice("You refused the link."))
        #expect(messenger.handle(.typed("no 333333"), at: .zero) == [.answer(3, false), refused])
    }

    @Test("after a refused comparison, the call of the other peer is not answered again until it has ended")
    func refuses() {
        var messenger = Messenger(PeerID(1), Session("public"))
        let call = Announcement(.call(PeerID(1)), Session("public"))
        let presence = Announcement(.presence(PeerID(7)), Session("public"))
        let first = LinkID.central(1)
        #expect(
            messenger.handle(.sighted(Self.address, name: "Bob", call), at: .zero) == [.connect(first, Self.address)])
        _ = messenger.handle(.compare(1, Self.address, 123_456), at: .zero)
        let actions = messenger.handle(.typed("no 123456"), at: .zero)
        #expect(actions.first == .answer(1, false) && actions.last == .disconnect(first))
        #expect(messenger.handle(.unlinked(first, "cancelled"), at: .zero) == [])
        #expect(messenger.handle(.sighted(Self.address, name: "Bob", call), at: .seconds(60)) == [])
        _ = messenger.handle(.sighted(Self.address, name: "Bob", presence), at: .seconds(60))
        #expect(
            messenger.handle(.sighted(Self.address, name: "Bob", call), at: .seconds(60))
                == [.connect(.central(2), Self.address)])
    }

    @Test("a comparison with another device that the user refuses does not end the open chat")
    func refusesOtherDevices() {
        var air = Air()
        air.type(0, "Bob", "hello")
        air.handle(0, .compare(1, Air.address(9), 123_456))
        air.type(0, "no 123456")
        air.type(1, "hi")
        #expect(air.answers[0] == [false] && air.peers[0].isOpen && air.messages(0) == ["hi"])
    }

    @Test(
        "a refused pairing ends a chat that waits only if the device is the one that the user has chosen",
        arguments: [nil, PeerID(2)])
    func refusesStrangersWhileWaiting(copied: PeerID?) {
        var air = Air()
        if let copied {
            let presence = Announcement(.presence(copied), Session("public"))
            air.handle(0, .sighted(Air.address(9), name: "Bob", presence))
        }
        air.type(0, "\(Air.address(2))")
        for (device, name) in [(9, nil), (2, "Bob")] as [(Int, String?)] {
            #expect(air.peers[0].chatName == "Bob")
            air.handle(0, .compare(device, Air.address(device), 42))
            let known = name ?? copied.map { _ in "Bob" }
            let shown = known.map { "\(Air.address(device)) \($0)" } ?? "the unknown device \(Air.address(9))"
            #expect(air.notices(0).last?.hasSuffix("It is \(shown)") == true)
            air.type(0, "no 000042")
        }
        #expect(air.peers[0].chatName == nil && air.answers[0] == [false, false])
    }
}

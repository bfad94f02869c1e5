import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: strangers and faulty peers")
struct HostileTests {
    private static let (alice, bob) = (PeerID(1), PeerID(2))

    @Test(
        "the real caller is answered, although strangers with a copied tag and its identity call first and stay silent",
        arguments: [Air.Stranger.silent, .unknowing, .refusesConnections])
    func takesTurns(stranger: Air.Stranger) {
        var air = Air()
        for number in [0, 9, 10] { air.call(from: Air.address(number), stranger, as: Self.bob) }
        air.type(1, "Alice", "hello")
        air.run(for: .seconds(50))
        #expect(air.messages(0) == ["hello"] && air.delivered(1).count == 1)
        // While the link exists, no stranger gets an attempt.
        let count = air.attempts.count
        air.run(for: .seconds(60))
        #expect(air.attempts.count == count)
        // After a lost link, the peer that is known from this link is before the strangers, as soon as its call is seen.
        air.cut()
        air.type(1, "again")
        air.run(for: .seconds(20))
        #expect(air.messages(0) == ["hello", "again"])
        #expect(air.attempts[count...].map(\.address).firstIndex(of: Air.address(2)) == 1)
    }

    @Test("the number of a peer that is out of range does not select a stranger with this number as its name")
    func doesNotSelectANumberAsAName() {
        var air = Air(["public"])
        for (number, name) in [(8, "Bob"), (9, "1"), (10, "7")] {
            let presence = Announcement(.presence(PeerID(UInt32(number))), Session("public"))
            air.handle(0, .sighted(Air.address(number), name: name, presence))
        }
        air.handle(0, .vanished(Air.address(8)))
        air.type(0, "1")
        #expect(air.peers[0].chatName == nil)
        #expect(air.notices(0) == ["No peer 1 is in range. Type /peers for the list."])
        // No peer has had the number 7, so it can only be the name.
        air.type(0, "7")
        #expect(air.peers[0].chatName == "7")
    }

    @Test("a stranger that changes its address before each attempt does not keep the real caller waiting")
    func changesTheAddress() {
        var air = Air()
        air.type(1, "Alice", "hello")
        // The attempt to the real caller fails once, while it is out of range.
        air.move(inRange: false)
        air.type(1, "second")
        air.run(for: .seconds(9))
        air.move(inRange: true)
        for number in 9..<40 {
            air.call(from: Air.address(number), .silent)
            air.run(for: .seconds(1))
        }
        #expect(air.messages(0) == ["hello", "second"])
    }

    @Test("silent strangers that connect to the caller do not exclude the called peer")
    func acceptsTheCalledPeer() {
        var air = Air()
        air.type(0, "Bob")
        let hello = Frame.hello(Self.bob, nonce: [UInt8](repeating: 200, count: 8))
        for number in 100..<107 {
            air.handle(0, .linked(.peripheral(number), with: Air.address(9), frameLength: 18))
        }
        air.handle(0, .typed("hello"))
        for number in 107..<112 {
            air.handle(0, .linked(.peripheral(number), with: Air.address(9), frameLength: 18))
            air.handle(0, .received(.peripheral(number), Packet([200, 200, 200, 200], hello).bytes))
        }
        air.run(for: .seconds(2))
        #expect(air.messages(1) == ["hello"])
    }

    @Test("a stranger gets no message, and longer and longer waits; its address is not banned")
    func refusesStrangers() {
        var air = Air()
        air.call(from: Air.address(9), .unknowing)
        air.run(for: .seconds(100))
        let times = air.attempts.filter { $0.peer == 0 }.map { $0.time.components.seconds }
        #expect(times == [1, 9, 25, 55, 85])
        #expect(air.notices(0) == ["Link refused: the peers do not have the same --session."])
        // A stranger has copied the address of the real peer, which has not called and so refuses the link. Later it calls.
        air.call(from: Air.address(2), .unknowing)
        air.run(for: .seconds(100))
        #expect(air.attempts.count { $0.peer == 0 && $0.address == Air.address(2) } > 2 && air.messages(0) == [])
        air.type(1, "Alice", "hello")
        air.run(for: .seconds(40))
        #expect(air.messages(0) == ["hello"])
    }

    @Test("values for another central have no effect: a notification goes to all subscribed centrals")
    func ignoresForeignValues() throws {
        var (messenger, caller) = (Messenger(Self.alice, Session("red"), nonce: { Array(0..<8) }), Self.caller())
        let call = Announcement(.call(Self.alice), Session("red"))
        let id = LinkID.central(1)
        _ = messenger.handle(.sighted(Air.address(2), name: "Bob", call), at: .zero)
        let hello = messenger.handle(.linked(id, with: Air.address(9), frameLength: 18), at: .zero)
        var other = Handshake(Session("red"), PeerID(3), isCentral: true, nonce: Array(8..<16))
        var toOther = try caller.receive(other.hello)
        _ = try other.receive(toOther[0])
        toOther +=
            try other.receive(toOther[1]) + [
                .position(Position(9, 9)), .goodbye(1), .text(Position(1, 0), [65], isLast: true),
            ]
        let foreign = try toOther.map { Packet(try #require(other.link), $0).bytes } + [[], [1, 2], [0, 1, 2]]
        for value in foreign { #expect(messenger.handle(.received(id, value), at: .zero) == []) }

        // The handshake of this link then succeeds.
        caller = Self.caller()
        let number: [UInt8] = [0, 1, 2, 3]
        #expect(hello == [.transmit(id, [Packet(number, .hello(Self.alice, nonce: Array(0..<8))).bytes])])
        let answer = try caller.receive(.hello(Self.alice, nonce: Array(0..<8))) + [.position(Position(1, 0))]
        var actions: [Messenger.Action] = []
        for frame in answer { actions += messenger.handle(.received(id, Packet(number, frame).bytes), at: .zero) }
        #expect(actions.contains(.show(.notice("Connected to Bob."))))
        for value in foreign { #expect(messenger.handle(.received(id, value), at: .zero) == []) }
        #expect(messenger.isOpen)
    }

    private static func caller() -> Handshake {
        Handshake(Session("red"), bob, isCentral: false, nonce: Array(16..<24))
    }

    /// A member of the session calls Alice. Returns Alice, and the link's frames from Bob to Alice.
    private static func member(
        _ messenger: inout Messenger, _ number: Int, at time: Duration, position: Position = Position(1, 0)
    ) throws -> [Messenger.Action] {
        let id = LinkID.central(number)
        var caller = caller()
        let first = messenger.handle(.linked(id, with: Air.address(2), frameLength: 18), at: time).first
        guard case .transmit(_, let values) = try #require(first) else { return [] }
        let hello = try Packet(bytes: values[0])
        var actions: [Messenger.Action] = []
        for frame in try caller.receive(hello.frame) + [.position(position)] {
            actions += messenger.handle(.received(id, Packet(hello.link, frame).bytes), at: time)
        }
        return actions
    }

    @Test("after invalid frames of a member, the chat does not open again, and each attempt waits longer")
    func backsOffFromMembers() throws {
        var messenger = Messenger(Self.alice, Session("red"), nonce: { Array(0..<8) })
        _ = messenger.handle(
            .sighted(Air.address(2), name: "Bob", Announcement(.presence(Self.bob), Session("red"))), at: .zero)
        var time = Duration.zero
        var actions = messenger.handle(
            .sighted(Air.address(2), name: "Bob", Announcement(.call(Self.alice), Session("red"))), at: time)
        var (waits, opened) = ([Duration](), 0)
        for number in 1...6 {
            #expect(actions == [.connect(.central(number), Air.address(2))])
            actions = try Self.member(&messenger, number, at: time)
            opened += actions.count { $0 == .show(.notice("Connected to Bob.")) }
            let gap = Frame.text(Position(9, 0), [0x41], isLast: true)
            // A text of a peer that this peer has left is ignored; an invalid position is refused.
            for frame in [gap, .position(Position(9, 0))] {
                actions += messenger.handle(.received(.central(number), Packet([0, 1, 2, 3], frame).bytes), at: time)
            }
            #expect(actions.contains(.refuse(.wrongPosition)) && actions.contains(.disconnect(.central(number))))
            let end = time
            actions = messenger.handle(.unlinked(.central(number), "closed"), at: time)
            time = try #require(messenger.deadline)
            waits.append(time - end)
            actions = messenger.handle(.wake, at: time)
        }
        #expect(opened == 1)
        #expect(waits == [500, 1000, 2000, 4000, 8000, 16_000].map { .milliseconds($0) })
    }

    @Test("a part of a message does not remain when its sender leaves, because each identity could leave 64 KiB")
    func discardsPartsOfMessages() throws {
        var messenger = Messenger(Self.alice, Session("red"), nonce: { Array(0..<8) })
        for (number, time) in [(1, Duration.zero), (2, .seconds(60))] {
            for kind in [Announcement.Kind.presence(Self.bob), .call(Self.alice)] {
                let announcement = Announcement(kind, Session("red"))
                _ = messenger.handle(.sighted(Air.address(2), name: "Bob", announcement), at: time)
            }
            let actions = try Self.member(&messenger, number, at: time)
            let position = Packet([0, 1, 2, 3], .position(Position(1, 0))).bytes
            #expect(actions.contains(.transmit(.central(number), [position])))
            for frame in [.text(Position(1, 0), [65, 66], isLast: false), .goodbye(2)] as [Frame] {
                _ = messenger.handle(.received(.central(number), Packet([0, 1, 2, 3], frame).bytes), at: time)
            }
            #expect(messenger.chatName == nil)
            _ = messenger.handle(.unlinked(.central(number), "closed"), at: time)
        }
    }

    @Test(
        "a peer that has left gets no chat again, although the goodbye or its acknowledgement was lost",
        arguments: [0, 1],
        0...3)
    func leavesForGood(leaver: Int, values: Int) {
        var air = Air()
        air.type(0, "Bob", "hello")
        air.valuesLeft = values
        air.type(leaver, "/leave")
        let before = air.notices(leaver).count
        air.run(for: .seconds(120))
        #expect(air.notices(leaver).count == before)
        #expect(air.notices(1 - leaver).contains("The other peer left the chat: \(["Alice", "Bob"][leaver])."))
        #expect(air.peers.allSatisfy { $0.chatName == nil && !$0.isOpen })
        // Neither one calls, and both can chat again.
        air.type(1 - leaver, ["Bob", "Alice"][1 - leaver], "again")
        air.run(for: .seconds(40))
        #expect(air.messages(leaver).last == "again")
    }

    @Test("a peer that leaves without a link brings the goodbye with the next link, in both roles", arguments: [0, 1])
    func leavesWithoutLink(leaver: Int) {
        var air = Air()
        air.type(0, "Bob", "hello")
        air.move(inRange: false)
        air.type(1 - leaver, "lost", "lost, too")
        air.type(leaver, "/leave")
        air.run(for: .seconds(15))
        air.move(inRange: true)
        air.run(for: .seconds(40))
        #expect(
            air.notices(1 - leaver).suffix(2) == [
                "The other peer left the chat: \(["Alice", "Bob"][leaver]).",
                "Not delivered: 2 messages to \(["Alice", "Bob"][leaver]).",
            ])
        #expect(air.peers.allSatisfy { $0.chatName == nil } && air.peers[1 - leaver].undelivered == 2)
    }

    @Test(
        "a chat without an answer ends after 120 s, with the number of messages that are not delivered",
        arguments: [0, 1])
    func endsWithoutAnswer(writer: Int) {
        var air = Air()
        air.type(0, "Bob", "hello")
        air.move(inRange: false)
        air.type(writer, "lost")
        air.run(for: .seconds(110))
        #expect(air.peers[writer].chatName != nil)
        air.run(for: .seconds(15))
        let name = ["Bob", "Alice"][writer]
        #expect(
            air.notices(writer).suffix(2) == [
                "The chat ended: \(name) did not answer for 120 s.", "Not delivered: 1 message to \(name).",
            ])
        // Nothing is lost: the next chat delivers the message.
        air.move(inRange: true)
        air.type(writer, name)
        air.run(for: .seconds(40))
        #expect(air.messages(1 - writer).last == "lost")
    }

    @Test("a member that acknowledges nothing loses the link after 30 s, and the chat after 120 s")
    func endsWithoutAcknowledgement() throws {
        var messenger = Messenger(Self.alice, Session("red"), nonce: { Array(0..<8) })
        _ = messenger.handle(
            .sighted(Air.address(2), name: "Bob", Announcement(.call(Self.alice), Session("red"))), at: .zero)
        var (time, number, lost) = (Duration.zero, 1, [Duration]())
        _ = try Self.member(&messenger, number, at: time)
        _ = messenger.handle(.typed("hello"), at: time)
        while messenger.chatName != nil, time < .seconds(300) {
            time = try #require(messenger.deadline)
            for action in messenger.handle(.wake, at: time) {
                if case .disconnect(let id) = action {
                    lost.append(time)
                    let next = messenger.handle(.unlinked(id, "closed"), at: time)
                    #expect(next == [])
                }
                if case .connect = action {
                    number += 1
                    _ = try Self.member(&messenger, number, at: time)
                }
            }
        }
        #expect(lost.first == .seconds(30) && lost.count == 4 && time == .seconds(120))
        #expect(messenger.undelivered == 1)
    }
}

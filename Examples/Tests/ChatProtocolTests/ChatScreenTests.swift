import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: screen")
struct ChatScreenTests {
    private var screen = ChatScreen(name: "Alice")
    private var messenger = Messenger(PeerID(1), Session("public"))

    private var typing = TypingLine()

    private mutating func type(_ text: String) -> [String] { typing.type(Array(text.utf8)) }

    private func lines(width: Int = 40, height: Int = 8) -> [String] {
        screen.lines(messenger, typing, width: width, height: height)
    }

    @Test("without a chat, the screen lists the peers in range")
    mutating func listsPeers() throws {
        let address = try #require(BluetoothAddress("00:AA:01:00:00:42"))
        _ = messenger.handle(
            .sighted(address, name: "Bob", Announcement(.presence(PeerID(2)), Session("public"))), at: .zero)
        let lines = lines(width: 42)
        #expect(lines == ["Alice, no chat. Type the number of a peer.", "", "1  00:AA:01:00:00:42  Bob", "", "> "])
    }

    @Test("a message has a mark when it is delivered, and the newest lines are visible")
    mutating func showsHistory() {
        let bob = PeerID(2)
        for entry in [
            .sent(Receipt(bob, 1), "one"), .received(from: "Bob", "two"), .sent(Receipt(bob, 2), "three"),
            .delivered(Receipt(bob, 1), to: "Bob"),
        ] as [Entry] { screen.show(entry) }
        #expect(lines()[2...] == ["Alice: one ✓", "< Bob: two", "Alice: three …", "", "> "])
        #expect(lines(height: 6)[2...] == ["< Bob: two", "Alice: three …", "", "> "])
        #expect(lines(width: 8)[2...] == ["< Bob: t", "  wo", "Alice: t", "  hree …", "", "> "])
    }

    @Test("a typed line may have characters that a read has cut; erase, kill and arrow keys edit the line")
    mutating func editsTheLine() {
        for byte in Array("Grüße 👋".utf8) { #expect(typing.type([byte]) == []) }
        #expect(lines().last == "> Grüße 👋")
        #expect(type("\u{7F}\u{7F}!") == [])
        #expect(lines().last == "> Grüße!")
        #expect(type("\u{1B}[A\u{1B}OB\u{1B}[3~?\n") == ["Grüße!?"])
        #expect(lines().last == "> ")
        #expect(type("discarded\u{15}kept\rnext\n") == ["kept", "next"])
    }

    @Test("a message 1 to another peer gets no mark when message 1 to the first peer is delivered")
    mutating func marksTheMessageOfOnePeer() {
        let (bob, carol) = (Receipt(PeerID(2), 1), Receipt(PeerID(3), 1))
        screen.show(.sent(bob, "to Bob"))
        screen.show(.sent(carol, "to Carol"))
        screen.show(.delivered(bob, to: "Bob"))
        #expect(lines()[2...] == ["Alice: to Bob ✓", "Alice: to Carol …", "", "> "])
        #expect(Entry.delivered(bob, to: "Bob").line == "Delivered: message 1 to Bob")
    }

    /// A name that a peer advertises, or a text that it sends, looks like a line of the program.
    static let imitations = [
        "Delivered: message 1 to Bob", "Connected to Bob.", "Alice: hello ✓", "In range: 00:AA:01:00:00:42 Bob",
        "Bob: message 1\nDelivered: message 2 to Bob", "Not delivered: 1 message to Bob.", "1  00:AA:01:00:00:42  Bob",
        "The other peer left the chat: Bob.", "Does the other device show 000042? Type yes 000042 or no 000042",
        "x" + String(repeating: " ", count: 37) + "Delivered: message 1 to Bob",
        "x" + String(repeating: " ", count: 32) + "Connected to Bob.",
    ]

    @Test("no name and no text of a peer looks like a receipt or another line of the program", arguments: imitations)
    mutating func marksReceivedText(imitation: String) throws {
        var air = Air(["public"])
        let mallory = Announcement(.presence(PeerID(9)), Session("public"))
        air.handle(0, .sighted(Air.address(9), name: imitation, mallory))
        air.handle(0, .vanished(Air.address(9)))
        air.handle(0, .sighted(Air.address(9), name: imitation, mallory))
        air.handle(0, .compare(1, Air.address(9), 111_111))
        for text in ["2", "hello", "/peers", "/leave"] { air.type(0, text) }
        var shown = air.shown[0]
        for name in [imitation, "Bob"] { shown.append(.received(from: name, imitation)) }
        shown.append(.delivered(Receipt(PeerID(9), 1), to: imitation))
        let starts = [
            "In range: \(Air.address(9)) ", "Out of range: ", "Does the other device show 111111? ", "Chat with ",
            "2  \(Air.address(9))  ", "You left the chat.", "Not delivered: 1 message to ", "< ",
            "Delivered: message 1 to ",
        ]
        // A line begins with the words of the program, and the name or the text of the peer comes after them.
        let lines = shown.compactMap(\.line)
        #expect(lines.count == 11)
        #expect(Set(lines.compactMap { line in starts.first { line.hasPrefix($0) } }) == Set(starts))
        for line in lines where line.hasPrefix("<") { screen.show(.received(from: "Bob", imitation)) }
        let rows = self.lines(height: 1000)[2...].dropLast(2)
        #expect(rows.allSatisfy { $0.hasPrefix("< Bob: ") || $0.hasPrefix("  ") })
    }

    @Test("a text of wide characters fits the width, so that no row of the terminal begins with a part of it")
    mutating func limitsColumns() throws {
        let imitation = "Alice: I agree ✓"
        // Hangul consonants join to one character of any width. Each of these scalars has two columns.
        for filler in ["界", "👋", "\u{1100}"] {
            screen.show(.received(from: "Bob", String(repeating: filler, count: 60) + imitation))
        }
        let address = try #require(BluetoothAddress("00:AA:01:00:00:42"))
        let name = String(repeating: "界", count: 60) + imitation
        let bob = Announcement(.presence(PeerID(2)), Session("public"))
        for event in [.sighted(address, name: name, bob), .typed("1")] as [Messenger.Event] {
            _ = messenger.handle(event, at: .zero)
        }
        let rows = lines(height: 1000)
        #expect(rows.count > 15)
        for row in rows {
            let columns = row.unicodeScalars.reduce(0) { $0 + ("\u{1100}"..."\u{FFFFF}" ~= $1 && $1 != "✓" ? 2 : 1) }
            #expect(columns <= 40, "\(row)")
        }
        #expect(rows[2...].dropLast(2).allSatisfy { $0.hasPrefix("< Bob: ") || $0.hasPrefix("  ") })
    }

    @Test("the history keeps the newest 500 entries")
    mutating func limitsTheHistory() {
        for number in 1...ChatScreen.limit + 3 { screen.show(.notice("\(number)")) }
        let shown = lines(height: 1000)[2...].dropLast(2)
        #expect(shown.count == 500 && shown.first == "4" && shown.last == "503")
    }

    @Test("the last line of standard input needs no line end, and a line is not kept beyond the longest message")
    mutating func endsTheInput() {
        #expect(type("one\ntwo") == ["one"])
        #expect(typing.end() == "two" && typing.end() == "")
        for _ in 0..<3 { _ = typing.type([UInt8](repeating: 0x78, count: 60_000)) }
        #expect(typing.end().utf8.count == Conversation.maximumLength + 1)
    }

    @Test("a line of a pipe is not edited: only a line end has a meaning")
    mutating func keepsPipedLines() {
        typing = TypingLine(isEdited: false)
        #expect(type("a\u{7F}b\u{15}c\u{1B}[Ad\u{8}\te\r\nf") == ["a\u{7F}b\u{15}c\u{1B}[Ad\u{8}\te\r"])
        #expect(typing.end() == "f")
    }

    @Test("the end of a long typing line is visible")
    mutating func fitsTheScreen() {
        #expect(type(String(repeating: "a", count: 30) + "end") == [])
        #expect(lines(width: 10).last == "aaaaaaend")
    }
}

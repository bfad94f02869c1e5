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
        #expect(lines() == ["Alice, no chat. Type the number of a peer.", "", "1  Bob  00:AA:01:00:00:42", "", "> "])
    }

    @Test("a message has a mark when it is delivered, and the newest lines are visible")
    mutating func showsHistory() {
        let bob = PeerID(2)
        for entry in [
            .sent(Receipt(bob, 1), "one"), .received(from: "Bob", "two"), .sent(Receipt(bob, 2), "three"),
            .delivered(Receipt(bob, 1), to: "Bob"),
        ] as [Entry] { screen.show(entry) }
        #expect(lines()[2...] == ["Alice: one ✓", "Bob: two", "Alice: three …", "", "> "])
        #expect(lines(height: 6)[2...] == ["Bob: two", "Alice: three …", "", "> "])
        #expect(lines(width: 8)[2...] == ["ne ✓", "Bob: two", "Alice: t", "hree …", "", "> "])
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
        #expect(Entry.delivered(bob, to: "Bob").line == "Delivered to Bob: message 1")
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

import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: screen")
struct ChatScreenTests {
    private var screen = ChatScreen(name: "Alice")
    private var messenger = Messenger(PeerID(1), Session("public"))

    private mutating func type(_ text: String) -> [String] { screen.type(Array(text.utf8)) }

    private func lines(width: Int = 40, height: Int = 8) -> [String] {
        screen.lines(messenger, width: width, height: height)
    }

    @Test("without a chat, the screen lists the peers in range")
    mutating func listsPeers() throws {
        let address = try #require(BluetoothAddress("00:AA:01:00:00:42"))
        _ = messenger.handle(
            .sighted(address, name: "Bob", Announcement(.presence(PeerID(2)), Session("public"))))
        #expect(lines() == ["Alice, no chat. Type the number of a peer.", "", "1  Bob  00:AA:01:00:00:42", "", "> "])
    }

    @Test("a message has a mark when it is delivered, and the newest lines are visible")
    mutating func showsHistory() {
        for entry in [.sent(1, "one"), .received(from: "Bob", "two"), .sent(2, "three"), .delivered(1)] as [Entry] {
            screen.show(entry)
        }
        #expect(lines()[2...] == ["Alice: one ✓", "Bob: two", "Alice: three …", "", "> "])
        #expect(lines(height: 6)[2...] == ["Bob: two", "Alice: three …", "", "> "])
        #expect(lines(width: 8)[2...] == ["ne ✓", "Bob: two", "Alice: t", "hree …", "", "> "])
    }

    @Test("a typed line may have characters that a read has cut; erase, kill and arrow keys edit the line")
    mutating func editsTheLine() {
        for byte in Array("Grüße 👋".utf8) { #expect(screen.type([byte]) == []) }
        #expect(lines().last == "> Grüße 👋")
        #expect(type("\u{7F}\u{7F}!") == [])
        #expect(lines().last == "> Grüße!")
        #expect(type("\u{1B}[A\u{1B}OB\u{1B}[3~?\n") == ["Grüße!?"])
        #expect(lines().last == "> ")
        #expect(type("discarded\u{15}kept\rnext\n") == ["kept", "next"])
    }

    @Test("the end of a long typing line is visible, and control characters of a message are replaced")
    mutating func fitsTheScreen() {
        #expect(type(String(repeating: "a", count: 30) + "end") == [])
        #expect(lines(width: 10).last == "aaaaaaend")
        #expect(visible("a\u{1B}[2J\n\u{202E}é👨‍👩‍👧") == "a\u{FFFD}[2J\u{FFFD}\u{FFFD}é👨‍👩‍👧")
    }
}

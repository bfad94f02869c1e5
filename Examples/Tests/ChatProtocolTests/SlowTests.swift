import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: slow links and long messages")
struct SlowTests {
    @Test("a message of 64 KiB arrives over one link with 7 bytes per 60 ms, in both roles", arguments: [0, 1])
    func arrivesSlowly(sender: Int) {
        var air = Air()
        air.type(0, "Bob", "hello")
        air.interval = .milliseconds(60)
        let text = String(repeating: "é", count: Conversation.maximumLength / 2)
        air.type(sender, text)
        air.run(for: .seconds(600))
        #expect(air.messages(1 - sender).last == text && air.delivered(sender).last?.number == (sender == 0 ? 2 : 1))
        #expect(
            air.attempts.count == 1
                && air.notices(sender) == ["Chat with \(["Bob", "Alice"][sender]).", connected(sender)])
    }

    @Test("a message arrives over a link with one frame per second, which reports no 32 frames in 30 s")
    func arrivesVerySlowly() {
        var air = Air()
        air.type(0, "Bob", "hello")
        air.interval = .seconds(1)
        air.type(0, String(repeating: "x", count: 700))
        air.run(for: .seconds(110))
        #expect(air.messages(1).count == 2 && air.attempts.count == 1)
    }

    @Test("a chat continues although each link is lost before a report, because the next link continues the message")
    func continuesAfterResync() {
        var air = Air()
        air.type(0, "Bob", "hello")
        air.interval = .milliseconds(500)
        air.handle(0, .typed(String(repeating: "x", count: 2000)))
        for _ in 0..<100 where air.messages(1).count < 2 {
            air.run(for: .milliseconds(6500))
            air.cut()
        }
        air.run(for: .seconds(10))
        #expect(air.messages(1).count == 2 && air.delivered(0).count == 2 && air.now > .seconds(150))
        #expect(!air.notices(0).contains { $0.hasPrefix("The chat ended") })
    }

    private func connected(_ peer: Int) -> String { "Connected to \(["Bob", "Alice"][peer])." }
}

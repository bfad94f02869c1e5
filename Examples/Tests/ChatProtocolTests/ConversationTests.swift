import ChatProtocol
import Testing

@Suite("Chat: messages")
struct ConversationTests {
    private var sender = Conversation()
    private var receiver = Conversation()
    private var received: [String] = []
    private var delivered: [UInt32] = []
    private var goodbyes = 0

    /// Links both ends, and passes at most `limit` frames of the sender. The link is then lost. Returns the sender's frames that were passed.
    @discardableResult
    private mutating func link(frameLength: Int = 18, limit: Int = .max) throws -> [Frame] {
        _ = sender.link(frameLength: frameLength)
        let start = try sender.receive(receiver.link(frameLength: frameLength))
        delivered += start.delivered
        var pending = start.frames
        var passed: [Frame] = []
        while !pending.isEmpty, passed.count < limit {
            let frame = pending.removeFirst()
            passed.append(frame)
            #expect(Packet([0, 0, 0, 0], frame).bytes.count <= frameLength)
            let outcome = try receiver.receive(Frame(bytes: frame.bytes))
            if let message = outcome.message { received.append(message) }
            if outcome.isGoodbye { goodbyes += 1 }
            // The acknowledgement is lost if the link ends here.
            guard passed.count < limit else { break }
            for answer in outcome.frames {
                let acknowledged = try sender.receive(answer)
                delivered += acknowledged.delivered
                pending += acknowledged.frames
            }
        }
        sender.unlink()
        receiver.unlink()
        return passed
    }

    @Test("a message arrives whole for each length of a frame, although frames cut its characters", arguments: 12...44)
    mutating func cutsAnywhere(frameLength: Int) throws {
        let text = "aé你👋🏽 \u{0} end"
        _ = try sender.send(text)
        try link(frameLength: frameLength)
        #expect(received == [text] && delivered == [1] && sender.undelivered == 0)
    }

    @Test("a message of 64 KiB arrives, and a longer one and an empty one are not sent")
    mutating func limitsTheLength() throws {
        let text = String(repeating: "é", count: Conversation.maximumLength / 2)
        _ = try sender.send(text)
        for wrong in ["", text + "x"] {
            #expect(throws: ChatError.wrongLength) { try sender.send(wrong) }
        }
        #expect(sender.lastNumber == 1)
        #expect(try link(frameLength: 510).count == 132)
        #expect(received == [text] && delivered == [1])
    }

    @Test("messages arrive once and in order, although the link is lost after each possible number of frames")
    mutating func survivesCuts() throws {
        let texts = ["first 你好", "second", "third 👋"]
        for cut in 1...20 {
            (sender, receiver, received, delivered) = (Conversation(), Conversation(), [], [])
            for text in texts { _ = try sender.send(text) }
            // Each link passes some frames, until all messages are acknowledged.
            for _ in 0..<40 where sender.undelivered > 0 { try link(frameLength: 16, limit: cut) }
            // The position of a new link acknowledges the last message.
            try link(frameLength: 16)
            #expect(received == texts && sender.undelivered == 0, "cut after \(cut) frames")
        }
    }

    @Test("after a lost link, the transfer continues at the receiver's position, also with frames of another length")
    mutating func resumes() throws {
        _ = try sender.send(String(repeating: "0123456789", count: 10))
        #expect(try link(frameLength: 22, limit: 4).count == 4)
        let rest = try link(frameLength: 31)
        #expect(rest.count == 3)
        #expect(rest.first == .text(Position(1, 44), Array("45678901234567890123".utf8), isLast: false))
        #expect(received == [String(repeating: "0123456789", count: 10)])
    }

    @Test("frames of an earlier link that arrive after the reconnection have no effect")
    mutating func discardsDuplicates() throws {
        _ = try sender.send("a message of an earlier link")
        let early = try link(frameLength: 16)
        _ = try sender.send("another message")
        _ = receiver.link(frameLength: 12)
        for frame in early { #expect(try receiver.receive(frame) == Conversation.Outcome()) }
        // The first frame of the second message arrives twice, and once with more bytes.
        let texts = ["an", "an", "anot", "her message"]
        for (offset, text) in zip([0, 0, 0, 4], texts) {
            let frame = Frame.text(Position(2, UInt16(offset)), Array(text.utf8), isLast: offset == 4)
            if let message = try receiver.receive(frame).message { received.append(message) }
        }
        #expect(received == ["a message of an earlier link", "another message"])
        // A late acknowledgement has no effect, either.
        _ = sender.link(frameLength: 12)
        #expect(try sender.receive(.position(Position(3, 0))).delivered == [2])
        #expect(try sender.receive(.position(Position(2, 0))) == Conversation.Outcome())
    }

    @Test("a frame that leaves a gap, or acknowledges a message that was not sent, is refused")
    mutating func refusesGaps() throws {
        _ = receiver.link(frameLength: 18)
        for position in [Position(1, 1), Position(2, 0), Position(.max, .max)] {
            #expect(throws: ChatError.wrongPosition) { try receiver.receive(.text(position, [0x41], isLast: true)) }
        }
        _ = try receiver.receive(.text(Position(1, 0), [0x41, 0x42], isLast: false))
        #expect(throws: ChatError.wrongPosition) { try receiver.receive(.text(Position(1, 0), [0x41], isLast: true)) }

        _ = try sender.send("AB")
        _ = sender.link(frameLength: 18)
        for position in [Position(0, 0), Position(1, 2), Position(2, 1), Position(3, 0), Position(.max, 0)] {
            #expect(throws: ChatError.wrongPosition) { try sender.receive(.position(position)) }
        }
        #expect(try sender.receive(.position(Position(1, 1))).frames == [.text(Position(1, 1), [0x42], isLast: true)])
        for position in [Position(3, 0), Position(2, 1)] {
            #expect(throws: ChatError.wrongPosition) { try sender.receive(.position(position)) }
        }
    }

    @Test("a message longer than 64 KiB, and a message that is not UTF-8, are refused")
    mutating func refusesMessages() throws {
        _ = receiver.link(frameLength: 510)
        let half = [UInt8](repeating: 0x41, count: 32768)
        _ = try receiver.receive(.text(Position(1, 0), half, isLast: false))
        #expect(throws: ChatError.wrongLength) {
            try receiver.receive(.text(Position(1, 32768), half, isLast: false))
        }
        #expect(throws: ChatError.wrongLength) {
            try receiver.receive(.text(Position(1, 32768), half + [0x41], isLast: true))
        }
        for invalid in [[0xFF], [0xC3], [0xED, 0xA0, 0x80], [0xC0, 0x80]] as [[UInt8]] {
            #expect(throws: ChatError.notText) {
                try receiver.receive(.text(Position(1, 32768), Array(half.dropLast(8)) + invalid, isLast: true))
            }
        }
        #expect(try receiver.receive(.text(Position(1, 32768), half, isLast: true)).message?.utf8.count == 65536)
    }

    @Test(
        "a receiver of a long message reports its position after 32 frames or after 5 s, and the sender sees the progress"
    )
    mutating func reportsProgress() throws {
        _ = try sender.send(String(repeating: "x", count: 350))
        _ = sender.link(frameLength: 18)
        var reports: [Frame] = []
        for (number, frame) in try sender.receive(receiver.link(frameLength: 18)).frames.enumerated() {
            // From the frame 40, each frame takes 2 s.
            let outcome = try receiver.receive(frame, at: .seconds(2 * max(0, number - 40)))
            #expect(outcome.isProgress)
            reports += outcome.frames
        }
        #expect(
            reports == [
                .position(Position(1, 32 * 7)), .position(Position(1, 44 * 7)), .position(Position(1, 48 * 7)),
                .position(Position(2, 0)),
            ])
        for report in reports { #expect(try sender.receive(report).isProgress) }
        #expect(try sender.receive(reports[0]) == Conversation.Outcome())
    }

    @Test(
        "a goodbye arrives once, after the messages before it, although the link is lost after each possible number of frames"
    )
    mutating func deliversGoodbye() throws {
        for cut in 1...6 {
            (sender, receiver, received, delivered, goodbyes) = (Conversation(), Conversation(), [], [], 0)
            _ = try sender.send("before 👋")
            _ = sender.leave()
            for _ in 0..<20 where !sender.isSettled { try link(frameLength: 16, limit: cut) }
            try link(frameLength: 16)
            #expect(received == ["before 👋"] && goodbyes == 1 && sender.isSettled, "cut after \(cut) frames")
            // The user's number does not count the goodbye.
            _ = try sender.send("after")
            try link()
            #expect(received == ["before 👋", "after"] && delivered == [1, 2])
        }
    }

    @Test("a goodbye that cannot have arrived is removed, and a goodbye before its turn ends the chat")
    mutating func entersAgain() throws {
        _ = try sender.send("one")
        _ = sender.leave()
        let early = sender.earlyGoodbye()
        #expect(sender.owesGoodbye && early == .goodbye(2))
        #expect(try receiver.receive(.goodbye(2)).isGoodbye)
        sender.enter()
        #expect(!sender.owesGoodbye)
        try link()
        #expect(received == ["one"] && sender.isSettled)
        _ = sender.leave()
        try link(limit: 1)
        sender.enter()
        // The acknowledgement was lost. If the goodbye had no number, the next message would count as a repetition of it.
        #expect(sender.owesGoodbye)
        _ = try sender.send("two")
        try link()
        #expect(received == ["one", "two"] && delivered == [1, 2])
    }

    @Test("a goodbye that was sent before the positions keeps its number, so no later message gets a receipt for it")
    mutating func keepsTheNumberOfAnEarlyGoodbye() throws {
        _ = sender.leave()
        _ = sender.link(frameLength: 18)
        let early = sender.earlyGoodbye()
        let goodbye = try #require(early)
        _ = receiver.link(frameLength: 18)
        #expect(try receiver.receive(goodbye).isGoodbye)
        // The link is lost before the acknowledgement.
        sender.unlink()
        receiver.unlink()
        sender.enter()
        _ = try sender.send("hello")
        try link()
        #expect(received == ["hello"] && delivered == [1] && sender.undelivered == 0)
    }

    @Test("at most 1 MiB of messages waits")
    mutating func limitsTheMemory() throws {
        let text = String(repeating: "x", count: Conversation.maximumLength)
        for _ in 0..<16 { _ = try sender.send(text) }
        #expect(throws: ChatError.tooMuchWaits) { try sender.send("x") }
        #expect(sender.undelivered == 16)
        try link(frameLength: 510)
        #expect(sender.isSettled && received.count == 16 && sender.undelivered == 0)
        for _ in 0..<16 { _ = try sender.send(text) }
    }

    @Test("no sequence of frames traps, and every shown message is valid")
    mutating func survivesHostileFrames() {
        var generator = Generator(state: 64)
        for _ in 0..<300 {
            var conversation = Conversation()
            for _ in 0..<60 {
                let position = Position(
                    [0, 1, 2, 3, .max].randomElement(using: &generator) ?? 0,
                    [0, 1, 2, 200, .max].randomElement(using: &generator) ?? 0)
                let bytes = [UInt8](
                    repeating: [0x41, 0xC3].randomElement(using: &generator) ?? 0,
                    count: Int.random(in: 1...200, using: &generator))
                switch Int.random(in: 0..<9, using: &generator) {
                case 0: _ = conversation.link(frameLength: 18)
                case 1: conversation.unlink()
                case 2: _ = try? conversation.send("text")
                case 3: _ = try? conversation.receive(.position(position))
                case 4: _ = conversation.leave()
                case 5: conversation.enter()
                case 6: _ = try? conversation.receive(.goodbye(position.sequence))
                default:
                    _ = try? conversation.receive(.text(position, bytes, isLast: .random(using: &generator)))
                }
            }
        }
    }
}

import OTAFirmware
import OTAProfile
import OTAUpdate
import Testing

@Suite("Retry limits of a profile session") struct ProfileLimitsTests {
    private typealias Device = Conversation.Device
    private let first = 0x21

    private func push() throws -> Conversation {
        var talk = try Conversation(
            .push(try ExampleUpdate.bundle(), UpdateOptions()), firstTag: UInt8(first))
        talk.comeUp(Device())
        return talk
    }

    /// Answers the request with this tag and discards all unchecked actions.
    private func answer(_ talk: inout Conversation, _ opcode: String, _ tag: Int, _ rest: String) {
        talk.forget()
        talk.tell(.link(.written(ProfileChannel.control)))
        talk.notify("8\(opcode) \(String(tag, radix: 16)) \(rest)")
    }

    /// - Returns: The tag of the next request, the image's BEGIN.
    private func sendEnvelope(_ talk: inout Conversation, from tag: Int) -> Int {
        answer(&talk, "1", tag, "00 00 10 00 00 00 00 00 00 00 00")
        answer(&talk, "2", tag + 1, "00 01 10 a9 00 00 00 88 e1 59 0d")
        answer(&talk, "3", tag + 2, "00")
        return tag + 3
    }

    /// - Returns: The tag of the next request.
    private func sendImage(_ talk: inout Conversation, from tag: Int, finish status: String) -> Int {
        answer(&talk, "1", tag, "00 01 20 00 00 00 00 00 00 00 00")
        answer(&talk, "2", tag + 1, "00 04 20 58 02 00 00 3b 94 b2 df")
        answer(&talk, "3", tag + 2, status)
        return tag + 3
    }

    @Test("APPLY is sent at most three times if the link breaks after each one")
    func mostApplies() throws {
        var talk = try push()
        var tag = first
        for round in 1...3 {
            #expect(talk.outcome == nil, "round \(round)")
            tag = sendImage(&talk, from: sendEnvelope(&talk, from: tag), finish: "00") + 1
            talk.forget()
            talk.tell(.linkDown(LinkError(.lost, "gone")))
            talk.now += .seconds(5)
            talk.waitForDeadline()
            talk.forget()
            talk.comeUp(Device())
        }
        #expect(talk.error == .linkLost)
    }

    @Test("an image whose digest differs is sent at most twice")
    func mostDigests() throws {
        var talk = try push()
        var tag = sendEnvelope(&talk, from: first)
        for round in 1...2 {
            #expect(talk.outcome == nil, "round \(round)")
            tag = sendImage(&talk, from: tag, finish: "10")
        }
        #expect(talk.error == .digestMismatch)
    }

    @Test("a device that reports an offset past the image's end gets at most three BEGIN requests")
    func mostMismatches() throws {
        var talk = try push()
        let tag = sendEnvelope(&talk, from: first)
        for round in 0..<3 {
            #expect(talk.outcome == nil, "round \(round)")
            answer(&talk, "1", tag + round, "00 01 20 59 02 00 00 00 00 00 00")
        }
        #expect(talk.error == .protocolViolation)
    }
}

import OTAFirmware
import OTASMP
import Testing

@Suite("SMP frames") struct SMPFrameTests {
    // Source: a log in issue 55 of healthypi-move-fw. The host requests the bootloader's name, and a Zephyr device answers.
    @Test("a request and its answer equal those in the log of a real device")
    func readsWhatARealDeviceSaid() throws {
        let question = SMPRequest.bootloader.frame(sequence: 0, version: .second)
        #expect(Hex.encode(question.bytes) == "0800000100000008a0")
        let answer = try SMPFrame(
            parsing: try #require(Hex.decode("0900001500000008bf6a626f6f746c6f61646572674d4355626f6f74ff")))
        #expect(SMPRequest.bootloader.isAnswered(by: answer, sequence: 0))
        #expect(try SMPAnswer(parsing: answer.body) == .good(["bootloader": .text("MCUboot")]))
    }

    @Test("a frame survives encoding and parsing")
    func isReadAsItIsWritten() throws {
        for version in [SMPFrame.Version.first, .second] {
            let frame = SMPFrame(
                version: version, operation: .writeAnswer, group: 0x1234, sequence: 255, command: 7, body: [0xA0])
            #expect(try SMPFrame(parsing: frame.bytes) == frame)
        }
    }

    @Test(
        "a frame with a wrong length, version or operation, or with reserved bits, is refused",
        arguments: [
            "", "09", "09000000000000", "0900000100000008", "0900000000000008a0", "2900000000000008",
            "1100000000000008",
            "0c00000000000008", "0f00000000000008",
        ])
    func refuses(hex: String) throws {
        let bytes = try #require(Hex.decode(hex))
        #expect(throws: SMPFrameError.self) { try SMPFrame(parsing: bytes) }
    }

    @Test("only a frame with the request's sequence, group, command and operation is its answer")
    func anotherSequenceIsNoAnswer() throws {
        let answer = try SMPFrame(parsing: try #require(Hex.decode("0900000100000706a0")))
        #expect(SMPRequest.parameters.isAnswered(by: answer, sequence: 7))
        #expect(!SMPRequest.parameters.isAnswered(by: answer, sequence: 6))
        #expect(!SMPRequest.slots.isAnswered(by: answer, sequence: 7))
        #expect(!SMPRequest.reset.isAnswered(by: answer, sequence: 7))
    }
}

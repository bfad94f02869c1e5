import OTAFirmware
import OTASMP
import Testing

@Suite("SMP answers") struct SMPAnswerTests {
    private func answer(_ fields: [String: CBORValue]) throws -> SMPAnswer {
        try SMPAnswer(parsing: CBOREncoder.encode(.map(fields)))
    }

    // Answers of SMP version 2 can use either encoding.
    @Test("both encodings of errors are parsed, and each has a readable meaning")
    func readsBothShapesOfErrors() throws {
        let group = try answer(["err": .map(["group": CBORValue(1), "rc": CBORValue(30)])])
        #expect(group == .bad(.image(30)))
        #expect(try answer(["rc": CBORValue(8)]) == .bad(.unsupported))
        #expect(try answer(["rc": CBORValue(30)]) != .bad(.image(30)))
        let told = try answer(["rc": CBORValue(1), "rsn": .text("magic mismatch")])
        guard case .bad(let error) = told else {
            Issue.record("\(told)")
            return
        }
        #expect(error.meaning == "unknown error (error 1, \"magic mismatch\")")
        #expect(SMPError.image(30).meaning == "the image is too large for the slot (error 30 of group 1)")
        #expect(SMPError(group: 66, code: 30).meaning == "error 30 of group 66")
    }

    // The answer to `stat list` has `rc: 0` next to its result.
    @Test("an answer with rc 0 or without rc is a success")
    func noErrorIsGood() throws {
        let fields: [String: CBORValue] = ["rc": CBORValue(0), "off": CBORValue(5)]
        #expect(try answer(fields) == .good(fields))
        #expect(try answer([:]) == .good([:]))
    }

    @Test(
        "a malformed answer is refused",
        arguments: ["80", "f5", "", "a162726361 61".filter { $0 != " " }, "a163657272a0", "a16272636161"])
    func refuses(hex: String) throws {
        let bytes = try #require(Hex.decode(hex))
        #expect(throws: SMPFrameError.self) { try SMPAnswer(parsing: bytes) }
    }
}

import OTAFirmware
import OTASMP
import Testing

/// Compares the frames of OTASMP with frames of an independent implementation.
@Suite("Golden SMP frames") struct GoldenTests {
    /// The Python package writes canonical CBOR. ``CBOREncoder`` writes byte strings first.
    @Test("each request has the same length and the same fields as in the Python package")
    func everyRequestIsTheirs() throws {
        let lines = try GoldenFile.lines().filter { $0.kind == "request" }
        #expect(Set(lines.map(\.name)) == Set(GoldenMessages.requests.keys))
        for line in lines {
            let request = try #require(GoldenMessages.requests[line.name])
            let version = try #require(SMPFrame.Version(rawValue: line.version))
            let frame = request.frame(sequence: line.sequence, version: version)
            let theirs = try SMPFrame(parsing: line.bytes)
            #expect(Hex.encode(frame.bytes.prefix(8)) == Hex.encode(line.bytes.prefix(8)), "\(line.name)")
            #expect(frame.body.count == theirs.body.count, "\(line.name)")
            #expect(try CBORDecoder.decode(frame.body) == CBORDecoder.decode(theirs.body), "\(line.name)")
            if !theirs.fields.values.contains(where: { $0.bytes != nil }) { #expect(frame == theirs, "\(line.name)") }
        }
    }

    @Test("each answer of the Python package is parsed")
    func everyAnswerIsRead() throws {
        let lines = try GoldenFile.lines().filter { $0.kind == "answer" }
        #expect(Set(lines.map(\.name)) == Set(GoldenMessages.answers.keys))
        for line in lines {
            let (request, answer) = try #require(GoldenMessages.answers[line.name])
            let frame = try SMPFrame(parsing: line.bytes)
            #expect(request.isAnswered(by: frame, sequence: line.sequence), "\(line.name)")
            #expect(frame.version.rawValue == line.version)
            #expect(try SMPAnswer(parsing: frame.body) == answer, "\(line.name)")
            let fields = try CBORDecoder.decode(frame.body)
            #expect(try CBORDecoder.decode(CBOREncoder.encode(fields)) == fields)
        }
    }

    @Test("the parameters and the image list of the Python package are parsed")
    func theAnswersMeanWhatTheySay() throws {
        func fields(_ name: String) throws -> [String: CBORValue] {
            guard case .good(let fields) = try #require(GoldenMessages.answers[name]).answer else { return [:] }
            return fields
        }
        #expect(SMPParameters(try fields("parameters")) == SMPParameters(bufferSize: 2475, bufferCount: 4))
        #expect(SMPParameters(try fields("parameters")).window == 3)
        #expect(try SMPImageList(fields("state")) == GoldenMessages.list)
    }
}

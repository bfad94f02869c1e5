import OTAFirmware
import OTASMP
import Testing

/// Compares the frames of OTASMP with frames of an independent implementation.
@Suite("Golden SMP frames") struct GoldenTests {
    @Test("each request has the same bytes as in the Python package")
    func everyRequestIsTheirs() throws {
        let lines = try GoldenFile.lines().filter { $0.kind == "request" }
        #expect(Set(lines.map(\.name)) == Set(GoldenMessages.requests.keys))
        for line in lines {
            let request = try #require(GoldenMessages.requests[line.name])
            let version = try #require(SMPFrame.Version(rawValue: line.version))
            let frame = request.frame(sequence: line.sequence, version: version)
            #expect(Hex.encode(frame.bytes) == Hex.encode(line.bytes), "\(line.name)")
            #expect(try SMPFrame(parsing: line.bytes) == frame)
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
            // The package also writes canonical CBOR.
            #expect(CBOREncoder.encode(try CBORDecoder.decode(frame.body)) == frame.body)
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

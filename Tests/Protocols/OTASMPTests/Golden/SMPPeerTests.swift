import OTAFirmware
import OTASMP
import OTASimulator
import OTAUpdate
import Testing

/// Runs the published package on every command, on random commands, and on the virtual device's answers.
@Suite("Comparison with the SMP package for Python") struct SMPPeerTests {
    /// The Python package writes canonical CBOR. ``CBOREncoder`` writes byte strings first.
    @Test("the Python package decodes our requests, and its encoding has the same header, length and fields")
    func readsAndWritesOurRequests() async throws {
        var random = SplitMix64(seed: 2026)
        var lines: [(name: String, bytes: [UInt8])] = []
        for (name, request) in GoldenMessages.requests {
            for version in [SMPFrame.Version.first, .second] {
                let sequence = UInt8.random(in: 0...255, using: &random)
                lines.append((name, request.frame(sequence: sequence, version: version).bytes))
            }
        }
        for _ in 0..<300 {
            let data = (0..<Int.random(in: 0...600, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            let offset = Int.random(in: 1...(1 << UInt8.random(in: 1...40, using: &random)), using: &random)
            let chunk = SMPRequest.upload(SMPChunk(offset: offset, data: data))
            lines.append(
                ("chunk", chunk.frame(sequence: UInt8.random(in: 0...255, using: &random), version: .second).bytes))
        }
        let theirs = try await SMPPeer.run("check", lines.map { "request \($0.name) \(Hex.encode($0.bytes))" })
        #expect(theirs.count == lines.count)
        for (theirs, line) in zip(theirs, lines) {
            let ours = try SMPFrame(parsing: line.bytes)
            let theirs = try SMPFrame(parsing: try #require(Hex.decode(theirs)))
            #expect(try CBORDecoder.decode(theirs.body) == CBORDecoder.decode(ours.body), "\(line.name)")
            var same = theirs
            same.body = ours.body
            #expect(same == ours && theirs.body.count == ours.body.count, "\(line.name)")
        }
    }

    // The virtual device writes maps of indefinite length.
    @Test("the Python package and OTASMP decode the virtual device's answers equally")
    func readsTheVirtualDevicesAnswers() async throws {
        var lines: [(name: String, frame: SMPFrame)] = []
        for version in [SMPFrame.Version.first, .second] {
            let served = try ServedRequests()
            for name in ["echo", "parameters", "system", "bootloader", "state", "erase", "chunk", "reset"] {
                let request = try #require(GoldenMessages.requests[name])
                let frame = try served.answer(to: request.frame(sequence: 9, version: version))
                #expect(request.isAnswered(by: frame, sequence: 9))
                lines.append((name == "erase" ? version == .second ? "refused" : "unsupported" : name, frame))
            }
            let refused = try served.answer(
                to: SMPRequest.setState(digest: nil, confirm: false).frame(sequence: 1, version: version))
            lines.append((version == .second ? "refused" : "unsupported", refused))
        }
        let theirs = try await SMPPeer.run("check", lines.map { "answer \($0.name) \(Hex.encode($0.frame.bytes))" })
        for (line, theirs) in zip(lines, theirs) {
            #expect(line.frame.body.isEmpty || line.frame.body[0] == 0xBF)
            let decoded = try CBORDecoder.decode(try #require(Hex.decode(theirs)))
            #expect(try CBORDecoder.decode(line.frame.body) == decoded, "\(line.name)")
        }
        #expect(theirs.count == lines.count)
    }

    @Test("each error code of the Python package has a meaning in OTASMP")
    func hasWordsForEveryError() async throws {
        let groups: [String: UInt16?] = ["general": nil, "system": 0, "image": 1]
        let codes = try await SMPPeer.run("errors")
        #expect(codes.count == 51)
        for code in codes {
            let words = code.split(separator: " ")
            let group = try #require(groups[String(words[0])])
            let error = SMPError(group: group, code: try #require(Int(words[1])))
            #expect(error.meaning.contains(" ("), "\(code)")
        }
    }
}

/// A virtual device that answers requests without a link.
private struct ServedRequests {
    private let device: VirtualSMPDevice
    private let inbox = Inbox()

    private final class Inbox: @unchecked Sendable {
        var assembler = SMPFrameAssembler()
        var frames: [SMPFrame] = []
    }

    init() throws {
        device = try VirtualSMPDevice(VirtualSMPConfiguration())
        device.observe { [inbox] _, _, value in
            inbox.frames += (try? inbox.assembler.take(value)) ?? []
            return true
        } onRestart: {
        }
        #expect(device.reachable(at: .zero) == .zero)
        #expect(device.connect(1, valueLength: 20, at: .zero))
        try device.subscribe(1, to: SMPChannel.value, on: true, at: .zero)
    }

    func answer(to frame: SMPFrame) throws -> SMPFrame {
        try device.write(1, SMPChannel.value, frame.bytes, at: .zero)
        let frame = inbox.frames.popLast()
        return try #require(frame)
    }
}

import Gauntlet
import OTASMP
import OTASigning
import OTAUpdate

/// Runs an SMP session with a device that the input controls.
enum SMPSessionFuzz {
    private static let release = try? SMPRelease()

    static func run(_ bytes: [UInt8]) -> String? {
        guard let release else { return "the release cannot be made" }
        var input = FuzzInput(bytes)
        let task = input.next()
        if task >= FuzzInput.hostile { return HostileRun.offence(overSMP: true) { input.number(in: $0) } }
        // SMP does not support `identify`.
        guard let conversation = try? SMPConversation(release.task(task)) else { return nil }
        let session = UpdateSession(conversation, seed: UInt64(input.next()))
        var peer = SMPPeer(release: release)
        return peer.run(session, &input)
    }
}

/// A device that answers the requests in order. The input selects correct and faulty answers.
private struct SMPPeer: FuzzPeer {
    let release: SMPRelease
    private var isConnecting = false
    private var valueLength = 0
    private var assembler = SMPFrameAssembler()
    /// The requests without an answer.
    private var asked: [SMPFrame] = []

    init(release: SMPRelease) { self.release = release }

    mutating func hear(_ action: UpdateAction) -> String? {
        switch action {
        case .connect, .find, .disconnect:
            isConnecting = action != .disconnect
            assembler = SMPFrameAssembler()
            asked = []
        case .link(.send(let values, let channel)):
            guard channel == SMPChannel.value else { return "a value is sent to another channel" }
            for value in values {
                guard 1...max(1, valueLength) ~= value.count else {
                    return "a value has \(value.count) bytes, which the link does not allow"
                }
                guard let frames = try? assembler.take(value) else { return "the sent bytes are not a frame" }
                asked += frames
                if let frame = frames.first(where: { !isOfImage($0) }) {
                    return "a chunk is not part of an image: \(frame)"
                }
            }
        default: break
        }
        return nil
    }

    /// Returns whether a frame is not a chunk, or has the bytes of an image at its offset.
    private func isOfImage(_ frame: SMPFrame) -> Bool {
        guard frame.group == SMPRequest.imageGroup, frame.command == 1 else { return true }
        guard let chunk = Chunk(frame) else { return false }
        return release.images.contains { image in
            let bytes = image.verified.bytes
            return chunk.end <= bytes.count && bytes[chunk.offset..<chunk.end].elementsEqual(chunk.data)
        }
    }

    mutating func event(_ input: inout FuzzInput, at now: inout Duration, deadline: Duration?) -> UpdateEvent {
        let what = input.next()
        switch what & 15 {
        case 0:
            let length = Int(input.next()) * 2
            // A link that was not requested does not count.
            if isConnecting { valueLength = length }
            isConnecting = false
            return .linkUp(
                LinkProperties(
                    channels: what & 32 == 0 ? [SMPChannel.value] : [], maximumValueLength: length,
                    preservesMessageBoundaries: what & 16 != 0))
        case 1: return .link(.subscribed(SMPChannel.value))
        case 2: return .link(.notified(input.bytes(upTo: Int(input.next())), SMPChannel.value))
        case 3:
            let error = LinkError(what & 128 == 0 ? .refused : .notPermitted, "fuzz")
            return .link(.refused(error, SMPChannel.value))
        case 4 where what & 128 != 0: return .linkDown(LinkError(.noSuchDevice, "fuzz"))
        case 4, 5: return .linkDown(LinkError(.lost, "fuzz"))
        case 6: return .interrupted
        case 7:
            now += .milliseconds(Int(input.nextNumber()))
            return .deadlinePassed
        case 8, 9:
            now = max(now, deadline ?? now)
            return .deadlinePassed
        case 10: return .link(.notified(answer(to: nextAsked(), what, body: input.body()), SMPChannel.value))
        // Answers a request without removing it, so that it can be answered again.
        case 11: return .link(.notified(answer(to: asked.last, what, body: input.body()), SMPChannel.value))
        default:
            let frame = nextAsked()
            let body = frame.map { wanted($0, &input) } ?? [:]
            return .link(.notified(answer(to: frame, what, body: CBOREncoder.encode(.map(body))), SMPChannel.value))
        }
    }

    private mutating func nextAsked() -> SMPFrame? { asked.isEmpty ? nil : asked.removeFirst() }

    /// Returns an answer. Bits of `variant`: 16: SMP version 1, 32: another sequence number, 64: the last byte is missing.
    private func answer(to frame: SMPFrame?, _ variant: UInt8, body: [UInt8]) -> [UInt8] {
        guard let frame else { return body }
        let answer = SMPFrame(
            version: variant & 16 != 0 ? .first : frame.version,
            operation: frame.operation == .read ? .readAnswer : .writeAnswer, group: frame.group,
            sequence: frame.sequence &+ (variant & 32 == 0 ? 0 : 1), command: frame.command, body: body)
        return variant & 64 == 0 ? answer.bytes : Array(answer.bytes.dropLast())
    }

    /// Returns the fields of a correct answer.
    private func wanted(_ frame: SMPFrame, _ input: inout FuzzInput) -> [String: CBORValue] {
        let fields = (try? CBORDecoder.decode(frame.body))?.map ?? [:]
        switch (frame.group, frame.command) {
        case (0, 0): return ["r": fields["d"] ?? .null]
        case (0, 6): return ["buf_size": CBORValue(Int(input.next()) << 3), "buf_count": CBORValue(Int(input.next()))]
        case (0, 7): return ["output": .text("board")]
        case (0, 8): return ["mode": CBORValue(Int(input.next()))]
        case (1, 0): return ["images": release.list(input.next())]
        case (1, 1):
            guard let end = Chunk(frame)?.end else { return [:] }
            // A lower offset is a lost chunk, a higher one is a resumed upload, and one past the end is impossible.
            let offset = end + Int(Int8(bitPattern: input.next())) * 8
            return ["off": offset < 0 ? .negative(UInt64(-1 - offset)) : CBORValue(offset)]
        case (1, 6):
            let slot = CBORValue.map(["slot": CBORValue(1), "size": CBORValue(Int(input.next()) << 4)])
            return ["images": .array([.map(["image": CBORValue(0), "slots": .array([slot])])])]
        default: return [:]
        }
    }

    private struct Chunk {
        let offset: Int
        let data: [UInt8]
        var end: Int { offset + data.count }

        init?(_ frame: SMPFrame) {
            guard let fields = (try? CBORDecoder.decode(frame.body))?.map, let offset = fields["off"]?.integer,
                let data = fields["data"]?.bytes
            else { return nil }
            self.offset = offset
            self.data = data
        }
    }
}

extension FuzzInput {
    /// Returns a general error, an error of a group, or arbitrary bytes.
    fileprivate mutating func body() -> [UInt8] {
        let code = Int(next())
        switch next() % 4 {
        case 0: return CBOREncoder.encode(.map(["rc": CBORValue(code)]))
        case 1:
            let error = CBORValue.map(["group": CBORValue(Int(next())), "rc": CBORValue(code)])
            return CBOREncoder.encode(.map(["err": error]))
        default: return bytes(upTo: code)
        }
    }
}

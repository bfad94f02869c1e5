import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

/// Runs sessions with a device whose answers have random faults.
@Suite("SMP sessions with faulty devices, exhaustive") struct ExhaustiveHostileSMPTests {
    private static let conversations = 3000

    @Test("every session with a faulty device ends within an hour of virtual time")
    func everyConversationEnds() throws {
        let image = try ExampleImage.make(bytes: 2000)
        let old = PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: "1.0.0")
        var outcomes: [String: Int] = [:]
        for seed in 1...UInt64(Self.conversations) {
            var random = SplitMix64(seed: seed)
            let temper = Double.random(in: 0.001...0.5, using: &random)
            let slots = PlayedSlots(running: [0: old], known: [image.fileDigest.bytes: image.listed()])
            let ending = [UpdateOptions.Ending.confirm, .trial, .permanent, .uploadOnly][Int(seed % 4)]
            let tasks: [UpdateTask<[SMPImage]>] = [
                .push([SMPImage(image)], UpdateOptions(ending: ending)), .status, .confirm,
                .discard(erasesImage: seed & 4 == 0),
            ]
            let task = Int.random(in: 0..<10, using: &random)
            let played = PlayedDevice(tasks[max(0, task - 6)], valueLength: 300, seed: seed) { frame, _ in
                let reply = slots.answer(frame)
                return Double.random(in: 0...1, using: &random) < temper ? Self.spoilt(reply, frame, &random) : reply
            }
            switch played.outcome {
            case .success(let report):
                outcomes["\(report.outcome)", default: 0] += 1
            case .failure(let error): outcomes[error.code.rawValue, default: 0] += 1
            case nil: Issue.record("seed \(seed) has no end")
            }
            #expect(played.now < .seconds(3600), "seed \(seed)")
        }
        #expect(outcomes.count > 10, "\(outcomes)")
        #expect(outcomes["confirmed", default: 0] > 100, "\(outcomes)")
    }

    private static func spoilt(
        _ reply: PlayedDevice.Reply, _ frame: SMPFrame, _ random: inout SplitMix64
    ) -> PlayedDevice.Reply {
        guard case .fields(var fields) = reply else { return reply }
        let numbers: [CBORValue] = [
            .unsigned(0), .unsigned(1), .unsigned(8), .unsigned(.max), .negative(0), .negative(.max), .null, .text("?"),
            .unsigned(UInt64.random(in: 0...4000, using: &random)), .array([]), .map([:]), .bool(true),
        ]
        let number = numbers[Int.random(in: 0..<numbers.count, using: &random)]
        switch Int.random(in: 0..<9, using: &random) {
        case 0: return .silence
        case 1: return .loss
        case 2: return .fields(["rc": number])
        case 3:
            return .fields(["err": .map(["group": CBORValue(Int.random(in: 0...2, using: &random)), "rc": number])])
        case 4:
            for key in fields.keys.sorted() where Bool.random(using: &random) { fields[key] = number }
            return .fields(fields)
        case 5: return .fields([:])
        case 6: return .values([random.noise(), frame.answer(fields)])
        case 7:
            var bytes = frame.answer(fields)
            bytes[Int.random(in: bytes.indices, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            return .values([bytes])
        default:
            let bytes = frame.answer(fields)
            return .values([Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &random)))])
        }
    }
}

extension SplitMix64 {
    fileprivate mutating func noise() -> [UInt8] {
        (0..<Int.random(in: 0...40, using: &self)).map { _ in UInt8.random(in: 0...255, using: &self) }
    }
}

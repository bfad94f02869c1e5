import OTAFirmware
import OTAProfile
import OTAUpdate
import Testing

@Suite("Frames of the OTA profile") struct FrameTests {
    // Source: docs/ota-profile.md, "Example".
    @Test("requests have the bytes of the example in docs/ota-profile.md")
    func requestsAsInTheExample() throws {
        let envelope: [UInt8] = [0xab, 0x01, 0x74, 0x64, 0xe2, 0xfa, 0x78, 0xe9]
        let begin = Request.begin(.envelope, size: 169, from: 0, digestPrefix: envelope)
        #expect(Hex.encode(begin.bytes(tag: 0x21)) == "012101a900000000000000ab017464e2fa78e9")
        let image: [UInt8] = [0xdb, 0x4f, 0x2a, 0xc2, 0x5d, 0x14, 0x03, 0x69]
        let resume = Request.begin(.image, size: 600, from: Request.resume, digestPrefix: image)
        #expect(Hex.encode(resume.bytes(tag: 0x24)) == "01240258020000ffffffffdb4f2ac25d140369")
        #expect(Hex.encode(Request.sync(sequence: 0x1001).bytes(tag: 0x22)) == "02220110")
        #expect(Hex.encode(Request.finish(.image).bytes(tag: 0x26)) == "0326")
        #expect(Hex.encode(Request.apply(permanent: false).bytes(tag: 0x27)) == "042700")
        #expect(Hex.encode(Request.confirm.bytes(tag: 0x28)) == "0528")
        #expect(Hex.encode(Request.discard.bytes(tag: 0x29)) == "0629")
        #expect(Hex.encode(Request.identify(seconds: 5).bytes(tag: 0x2a)) == "072a05")
    }

    @Test(
        "an answer is parsed as in the example, and another tag or opcode, a wrong length or an unknown status is not accepted"
    )
    func answersAsInTheExample() throws {
        let sync = Request.sync(sequence: 0x1001)
        let bytes: [UInt8] = [0x82, 0x22, 0x00, 0x01, 0x10, 0xa9, 0, 0, 0, 0x88, 0xe1, 0x59, 0x0d]
        let answer = try #require(try ControlAnswer(to: sync, tag: 0x22, parsing: bytes))
        #expect(answer.position == Position(next: 0x1001, offset: 169, crc: 0x0d59_e188))
        #expect(try ControlAnswer(to: sync, tag: 0x23, parsing: bytes) == nil, "another tag")
        #expect(try ControlAnswer(to: .confirm, tag: 0x22, parsing: bytes) == nil, "another opcode")
        #expect(throws: FrameError.self) { try ControlAnswer(to: sync, tag: 0x22, parsing: Array(bytes.dropLast())) }
        #expect(throws: FrameError.self) { try ControlAnswer(to: sync, tag: 0x22, parsing: bytes + [0]) }
        #expect(throws: FrameError.self) { try ControlAnswer(to: .confirm, tag: 1, parsing: [0x85, 1, 20]) }
        #expect(try ControlAnswer(to: sync, tag: 0x22, parsing: [0x82, 0x22, 3])?.status == .badState)
    }

    @Test("a progress value is parsed as in the example, and another length or state is refused")
    func progressAsInTheExample() throws {
        let rewind: [UInt8] = [0x03, 0x00, 0x02, 0x30, 0xf2, 0, 0, 0, 0x6a, 0x82, 0xaa, 0x3b]
        let value = try ProgressValue(parsing: rewind)
        #expect(value.state == .image && value.status == .ok)
        #expect(value.position == Position(next: 0x3002, offset: 242, crc: 0x3baa_826a))
        #expect(throws: FrameError.self) { try ProgressValue(parsing: Array(rewind.dropLast())) }
        #expect(throws: FrameError.self) { try ProgressValue(parsing: [6] + rewind.dropFirst()) }
        #expect(throws: FrameError.self) { try ProgressValue(parsing: rewind + [0]) }
    }

    private static let info: [(type: UInt8, value: [UInt8])] = [
        (1, [1]), (2, Array("demo".utf8)), (3, [2, 0]), (4, [7, 0, 0, 0]), (5, [1, 0, 0, 0x10, 0]),
        (6, [0, 2, 64, 0]), (7, [10, 0, 60, 0]), (8, [1, 2, 3, 4, 5, 6, 7, 8]),
    ]
    private func encoded(_ fields: [(type: UInt8, value: [UInt8])]) -> [UInt8] {
        fields.flatMap { [$0.type, UInt8($0.value.count)] + $0.value }
    }

    @Test("item 11 of the device info has the largest base; another encoding is skipped, another length refused")
    func encodings() throws {
        func largestBase(_ value: [UInt8]) throws -> UInt32? {
            try DeviceInfo(parsing: encoded(Self.info + [(11, value)])).largestBase
        }
        #expect(try largestBase([1, 0, 0x70, 0x0e, 0]) == 946_176)
        #expect(try largestBase([1, 0, 0, 0, 0]) == 0)
        #expect(try largestBase([2, 0, 0x70, 0x0e, 0]) == nil)
        for value in [[], [1], [1, 0, 0, 0], [1, 0, 0, 0, 0, 0]] as [[UInt8]] {
            #expect(throws: FrameError.self) { try largestBase(value) }
        }
    }

    @Test("item 12 of the device info has the longest envelope, 158 to 65124 bytes, and the default is 1332")
    func longestEnvelope() throws {
        func longest(_ value: [UInt8]) throws -> Int {
            try DeviceInfo(parsing: encoded(Self.info + [(12, value)])).longestEnvelope
        }
        #expect(try DeviceInfo(parsing: encoded(Self.info)).longestEnvelope == 1332)
        #expect(try longest([158, 0]) == 158)
        #expect(try longest([0x64, 0xfe]) == 65124)
        for value in [[], [158], [158, 0, 0], [157, 0], [0x65, 0xfe], [0xff, 0xff]] as [[UInt8]] {
            #expect(throws: FrameError.self) { try longest(value) }
        }
    }

    @Test("device info with optional and unknown fields is parsed")
    func infoIsRead() throws {
        let held: (UInt8, [UInt8]) = (10, [9, 9, 9, 9, 9, 9, 9, 9, 0x10, 0x27, 0, 0])
        let unknown: (UInt8, [UInt8]) = (77, [1, 2, 3])
        let info = try DeviceInfo(parsing: encoded(Self.info + [(9, Array(1...8)), held, unknown]))
        #expect(info.product == "demo" && info.hardware == 2 && info.securityCounter == 7)
        #expect(info.imageFormat == 1 && info.largestImage == 0x100000)
        #expect(info.longestValue == 512 && info.window == 64)
        #expect(info.restartSeconds == 10 && info.trialSeconds == 60)
        #expect(info.keys.map(\.description) == ["0102030405060708"])
        #expect(info.running == Array(1...8) && info.held?.offset == 10000)
    }

    @Test("device info without a required field is refused", arguments: 1...8 as ClosedRange<UInt8>)
    func infoLacksNothing(type: UInt8) {
        #expect(throws: FrameError.self) { try DeviceInfo(parsing: encoded(Self.info.filter { $0.type != type })) }
    }

    @Test(
        "device info with a malformed field is refused",
        arguments: [
            (1, [2]), (2, []), (2, Array("a b".utf8)), (3, [2]), (4, [1, 2, 3, 4, 5]), (6, [19, 0, 64, 0]),
            (6, [1, 2, 64, 0]), (6, [0, 2, 0, 0]), (6, [0, 2, 0, 8]), (8, []), (8, [1, 2, 3]),
            (8, [UInt8](repeating: 1, count: 17 * 8)),
        ] as [(UInt8, [UInt8])])
    func infoIsStrict(type: UInt8, value: [UInt8]) {
        let fields = Self.info.map { $0.type == type ? (type, value) : $0 }
        #expect(throws: FrameError.self) { try DeviceInfo(parsing: encoded(fields)) }
    }

    @Test("device info with fields out of order, a repeated field, half a field or more than 512 bytes is refused")
    func infoAscends() {
        #expect(throws: FrameError.self) { try DeviceInfo(parsing: encoded(Self.info + [(8, Array(1...8))])) }
        #expect(throws: FrameError.self) { try DeviceInfo(parsing: encoded(Self.info.reversed())) }
        #expect(throws: FrameError.self) { try DeviceInfo(parsing: encoded(Self.info) + [9]) }
        #expect(throws: FrameError.self) { try DeviceInfo(parsing: [UInt8](repeating: 0, count: 513)) }
    }

    @Test("random changes to device info give a value or an error, and never a trap")
    func anyBytesAreTakenOrRefused() {
        var random = SplitMix64(seed: 1)
        var taken = 0
        for _ in 0..<20_000 {
            var bytes = encoded(Self.info)
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            bytes.removeLast(Int.random(in: 0...3, using: &random))
            if (try? DeviceInfo(parsing: bytes)) != nil { taken += 1 }
            _ = try? ProgressValue(parsing: Array(bytes.prefix(12)))
            _ = try? ControlAnswer(
                to: .sync(sequence: 1), tag: bytes[1], parsing: [0x82] + bytes.dropFirst().prefix(12))
        }
        #expect(taken > 0 && taken < 20_000)
    }
}

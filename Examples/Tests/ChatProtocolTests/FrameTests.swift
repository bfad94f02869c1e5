import BlueZ
import ChatProtocol
import Testing

@Suite("Chat: frames and advertisements")
struct FrameTests {
    private static let frames: [(Frame, [UInt8])] = [
        (.hello(PeerID(0x0403_0201), nonce: [9, 8, 7, 6, 5, 4, 3, 2]), [1, 1, 1, 2, 3, 4, 9, 8, 7, 6, 5, 4, 3, 2]),
        (.proof(Array(1...12)), [2] + Array(1...12)),
        (.position(Position(0x0102_0304, 0x0506)), [3, 4, 3, 2, 1, 6, 5]),
        (.text(Position(1, 0x0102), [0xC3], isLast: false), [4, 1, 0, 0, 0, 2, 1, 0xC3]),
        (.text(Position(1, 0), Array("Hi".utf8), isLast: true), [5, 1, 0, 0, 0, 0, 0, 0x48, 0x69]),
        (.goodbye(0x0102_0304), [6, 4, 3, 2, 1]),
    ]

    @Test("each frame has the documented bytes, and is read from them")
    func writesAndReads() throws {
        for (frame, bytes) in Self.frames {
            #expect(frame.bytes == bytes)
            #expect(try Frame(bytes: bytes) == frame)
            #expect(Packet([9, 8, 7, 6], frame).bytes == [9, 8, 7, 6] + bytes)
            #expect(try Packet(bytes: [9, 8, 7, 6] + bytes) == Packet([9, 8, 7, 6], frame))
        }
        for length in 0...4 {
            #expect(throws: ChatError.malformedFrame) { try Packet(bytes: Array([1, 2, 3, 6].prefix(length))) }
        }
    }

    @Test("no bytes trap, and bytes that are read as a frame are the bytes of that frame")
    func survivesHostileBytes() {
        var generator = Generator(state: 15)
        for round in 0..<20_000 {
            var bytes = (0..<Int.random(in: 0...24, using: &generator)).map { _ in
                UInt8.random(in: .min ... .max, using: &generator)
            }
            if round % 2 == 0, !bytes.isEmpty { bytes[0] = UInt8(round % 8) }
            if let frame = try? Frame(bytes: bytes) { #expect(frame.bytes == bytes) }
        }
    }

    @Test("a frame with another length, another version or an unknown type is malformed")
    func refusesMalformedFrames() {
        var malformed: [[UInt8]] = [[], [0], [7, 0]]
        for (_, bytes) in Self.frames where ![4, 5].contains(bytes[0]) {
            malformed += [bytes + [0], Array(bytes.dropLast())]
        }
        // The text of a frame is not empty.
        malformed += [[4, 1, 0, 0, 0, 0, 0], [5, 1, 0, 0, 0, 0, 0], [1, 2, 1, 2, 3, 4, 9, 8, 7, 6, 5, 4, 3, 2]]
        for bytes in malformed { #expect(throws: ChatError.malformedFrame) { try Frame(bytes: bytes) } }
    }

    @Test("an advertisement has the identity and 15 bits of the session, and a call has the called identity")
    func readsAdvertisements() throws {
        // The tag was computed with Python's hmac.
        let presence = Announcement(.presence(PeerID(0x0403_0201)), Session("public"))
        #expect(presence.tag == 0x1ED0)
        #expect(presence.manufacturerData == [0xFFFF: [0xD0, 0x1E, 1, 2, 3, 4]])
        let call = Announcement(.call(PeerID(0x0403_0201)), Session("public"))
        #expect(call.manufacturerData == [0xFFFF: [0xD0, 0x9E, 1, 2, 3, 4]])
        for announcement in [presence, call] {
            #expect(Announcement(announcement.manufacturerData) == announcement)
        }
        for length in (0...12).filter({ $0 != 6 }) {
            #expect(Announcement([0xFFFF: [UInt8](repeating: 1, count: length)]) == nil)
        }
        #expect(Announcement([0x004C: [1, 2, 3, 4, 5, 6]]) == nil)
    }

    @Test("each reason to refuse a frame has an ATT error of its own")
    func translatesErrors() {
        for error in ChatError.allCases {
            let code = error.attributeError.code
            #expect(ChatError(BlueZError(.attributeError, "", attributeError: code)) == error)
        }
        #expect(Set(ChatError.allCases.map(\.attributeError)).count == ChatError.allCases.count)
        #expect(ChatError(BlueZError(.disconnected, "")) == nil)
    }
}

/// SplitMix64, so that each run of a test has the same bytes.
struct Generator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = (state ^ state >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}

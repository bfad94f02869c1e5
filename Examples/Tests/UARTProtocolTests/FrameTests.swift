import Testing
import UARTProtocol

@Suite("UART: frames")
struct FrameTests {
    @Test("the checksum of “123456789” is the published value of CRC-16/IBM-3740")
    func checksum() {
        #expect(CRC16.checksum(of: "123456789".utf8) == 0x29B1)
    }

    @Test("a frame has its kind, its number and its data at the documented places")
    func layout() {
        let frame = Frame(.data(isLast: false, asksForAck: true, [9, 8]), 0x3433, receipt: 0x3837_3635)
        #expect(frame.bytes.prefix(9) == [0x0C, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 9, 8])
        #expect(Frame(.ack, 0x0102, receipt: 3).bytes.prefix(7) == [1, 2, 1, 3, 0, 0, 0])
        #expect(Frame(.nack, 7, receipt: 0xFF00_0000).bytes.prefix(7) == [2, 7, 0, 0, 0, 0, 0xFF])
    }

    @Test("each kind of frame is parsed to the same frame", arguments: [0, 1, 15, 503])
    func roundTrip(count: Int) throws {
        let data = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        for sequence: UInt16 in [0, 1, 0x7FFF, 0xFFFF] {
            var kinds = [Frame.Kind.ack, .nack]
            for isLast in [true, false] {
                for asksForAck in [true, false] { kinds.append(.data(isLast: isLast, asksForAck: asksForAck, data)) }
            }
            for kind in kinds {
                let frame = Frame(kind, sequence, receipt: UInt32(sequence) << 15)
                #expect(try Frame(bytes: frame.bytes) == frame)
            }
        }
    }

    @Test("a changed bit, a missing end and an additional byte are detected")
    func damage() {
        let bytes = Frame(.data(isLast: true, asksForAck: true, Array("text".utf8)), 3, receipt: 0).bytes
        for bit in 0..<bytes.count * 8 {
            var changed = bytes
            changed[bit / 8] ^= 1 << (bit % 8)
            #expect(throws: FrameError.wrongChecksum) { try Frame(bytes: changed) }
        }
        for count in 0..<Frame.overhead {
            #expect(throws: FrameError.tooShort) { try Frame(bytes: Array(bytes.prefix(count))) }
        }
        #expect(throws: FrameError.wrongChecksum) { try Frame(bytes: bytes.dropLast()) }
        #expect(throws: FrameError.wrongChecksum) { try Frame(bytes: bytes + [0]) }
    }

    @Test(
        "an unknown kind, and an acknowledgement with data, are refused",
        arguments: [3, 5, 13, 16, 0x80, 0xFF] as [UInt8])
    func unknownKind(first: UInt8) {
        let checked = [first] + [UInt8](repeating: 0, count: 6)
        let sum = CRC16.checksum(of: checked)
        #expect(throws: FrameError.unknownKind) {
            try Frame(bytes: checked + [UInt8(truncatingIfNeeded: sum), UInt8(sum >> 8)])
        }
        let long: [UInt8] = [1, 0, 0, 0, 0, 0, 0, 9]
        let longSum = CRC16.checksum(of: long)
        #expect(throws: FrameError.unknownKind) {
            try Frame(bytes: long + [UInt8(truncatingIfNeeded: longSum), UInt8(longSum >> 8)])
        }
    }
}

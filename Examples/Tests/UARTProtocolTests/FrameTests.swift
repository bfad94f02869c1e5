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
        let frame = Frame(.data(isLast: false, asksForAck: true, Array("456".utf8)), 0x3433)
        #expect(frame.bytes.prefix(6) == [0x0C, 0x33, 0x34, 0x34, 0x35, 0x36])
        #expect(Frame(.ack, 0x0102).bytes.prefix(3) == [1, 2, 1] && Frame(.nack, 7).bytes.prefix(3) == [2, 7, 0])
    }

    @Test("each kind of frame is parsed to the same frame", arguments: [0, 1, 15, 507])
    func roundTrip(count: Int) throws {
        let data = (0..<count).map { UInt8(truncatingIfNeeded: $0) }
        for sequence: UInt16 in [0, 1, 0x7FFF, 0xFFFF] {
            var kinds = [Frame.Kind.ack, .nack]
            for isLast in [true, false] {
                for asksForAck in [true, false] { kinds.append(.data(isLast: isLast, asksForAck: asksForAck, data)) }
            }
            for kind in kinds { #expect(try Frame(bytes: Frame(kind, sequence).bytes) == Frame(kind, sequence)) }
        }
    }

    @Test("a changed bit, a missing end and an additional byte are detected")
    func damage() {
        let bytes = Frame(.data(isLast: true, asksForAck: true, Array("text".utf8)), 3).bytes
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
        let checked = [first, 0, 0]
        let sum = CRC16.checksum(of: checked)
        #expect(throws: FrameError.unknownKind) {
            try Frame(bytes: checked + [UInt8(truncatingIfNeeded: sum), UInt8(sum >> 8)])
        }
        let long: [UInt8] = [1, 0, 0, 9]
        let longSum = CRC16.checksum(of: long)
        #expect(throws: FrameError.unknownKind) {
            try Frame(bytes: long + [UInt8(truncatingIfNeeded: longSum), UInt8(longSum >> 8)])
        }
    }
}

import OTALinks
import Testing

@Suite("Framings of a serial line") struct SerialFramingTests {
    /// The answer of MCUboot's raw serial recovery to a request for its buffers.
    private static let packet: [UInt8] =
        [0x09, 0, 0, 0x19, 0, 0, 0x04, 0x06, 0xBF, 0x68] + Array("buf_size".utf8) + [0x19, 0x04, 0, 0x69]
        + Array("buf_count".utf8) + [0x01, 0xFF]
    /// The same answer in a COBS frame, from MCUboot.
    private static let frame: [UInt8] =
        [0x02, 0x09, 0x01, 0x02, 0x19, 0x01, 0x0F, 0x04, 0x06, 0xBF, 0x68] + Array("buf_size".utf8)
        + [0x19, 0x04, 0x0F, 0x69] + Array("buf_count".utf8) + [0x01, 0xFF, 0xE6, 0x66, 0]
    private static let log = Array("*** Booting MCUboot ***\r\n".utf8)

    @Test("a COBS frame of MCUboot's serial recovery is decoded, and the same frame is produced")
    func aFrameOfMCUboot() {
        var decoder = COBSDecoder()
        #expect(decoder.decode(Self.log + [0] + Self.frame) == [Self.packet])
        #expect(COBSFraming.frame(carrying: Self.packet) == Self.frame)
    }

    @Test("a COBS frame with a wrong byte is discarded, and the next frame is decoded")
    func aDamagedFrame() {
        for index in Self.frame.indices.dropLast() {
            var damaged = Self.frame
            damaged[index] ^= 0x10
            var decoder = COBSDecoder()
            #expect(decoder.decode(damaged) == [], "byte \(index)")
            #expect(decoder.decode([0] + Self.frame) == [Self.packet])
        }
    }

    @Test("packets without frames are decoded, byte by byte and after the text of a boot log")
    func packetsWithoutFrames() {
        var decoder = SerialDecoder(.raw)
        let bytes = Self.log + Self.packet + Self.packet
        #expect(bytes.flatMap { decoder.decode([$0]) } == [Self.packet, Self.packet])
    }

    @Test("the first answer determines the framing of a line", arguments: SerialFraming.allCases)
    func detection(_ framing: SerialFraming) throws {
        var decoder = SerialDecoder(nil)
        // A COBS frame directly after text is lost. The byte 0 ends the text.
        #expect(decoder.decode(Self.log + [0]) == [] && decoder.framing == nil)
        let bytes = try #require(framing.frame(carrying: Self.packet))
        #expect(bytes.flatMap { decoder.decode([$0]) } == [Self.packet])
        #expect(decoder.framing == framing)
    }

    @Test("a query that the line sends back does not determine the framing")
    func anEcho() {
        var decoder = SerialDecoder(nil)
        #expect(decoder.decode([0x08, 0, 0, 1, 0, 0, 1, 6, 0xA0]) == [] && decoder.framing == nil)
    }

    @Test("only a frame of a console shares the device's buffer with its packet")
    func overheads() {
        #expect(SerialFraming.allCases.map(\.bufferOverhead) == [4, 0, 0])
    }
}

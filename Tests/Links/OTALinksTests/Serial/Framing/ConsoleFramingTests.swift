import OTALinks
import Testing

/// The expected lines are the output of smp 4.2.0 from PyPI: `b"".join(smp.packet.encode(packet))`.
@Suite("SMP packets as console lines") struct ConsoleFramingTests {
    /// From the documentation of `smp.packet.encode`.
    @Test("the example packet of the Python library smp has the documented line")
    func theExampleOfThePythonLibrary() {
        let lines = Array("\u{06}\u{09}AA9IZWxsbywgd29ybGQhet4=\n".utf8)
        #expect(ConsoleFraming.lines(carrying: Array("Hello, world!".utf8)) == lines)
    }

    /// The packet is `bytes(i * 37 % 256 for i in range(200))`.
    @Test("a packet of 200 bytes has the same three lines as in the Python library smp")
    func threeLinesOfThePythonLibrary() {
        let texts = [
            "AMoAJUpvlLneAyhNcpe84QYrUHWav+QJLlN4ncLnDDFWe6DF6g80WX6jyO0SN1yBpsvwFTpfhKnO8xg9Yoes0fYbQGWKr9T5HkNojbLX/CFGa5C12v8kSW6T",
            "uN0CJ0xxlrvgBSpPdJm+4wgtUnecweYLMFV6n8TpDjNYfaLH7BE2W4Clyu8UOV6DqM3yFzxhhqvQ9Ro/ZImu0/gdQmeMsdb7IEVqj7TZ/iNIbZK33AEmS3CV",
            "ut8EKU5zmL3iByxRdpvA5QovVHmew79N",
        ]
        let lines = "\u{06}\u{09}\(texts[0])\n\u{04}\u{14}\(texts[1])\n\u{04}\u{14}\(texts[2])\n"
        let packet = (0..<200).map { UInt8($0 * 37 % 256) }
        #expect(ConsoleFraming.lines(carrying: packet) == Array(lines.utf8))
        var decoder = ConsoleDecoder()
        #expect(decoder.decode(lines.utf8) == [packet])
    }

    @Test("each line is shorter than 127 bytes, and has the marker of a first or a continuation line")
    func linesAreShort() throws {
        for length in [0, 1, 85, 86, 87, 88, 500] {
            let lines = try #require(ConsoleFraming.lines(carrying: Array(repeating: 7, count: length)))
            let parts = lines.split(separator: UInt8(ascii: "\n"))
            #expect(parts.allSatisfy { $0.count < 127 })
            #expect(parts.first?.starts(with: [0x06, 0x09]) == true)
            #expect(parts.dropFirst().allSatisfy { $0.starts(with: [0x04, 0x14]) })
            // A line carries 90 bytes. Length and CRC add 4 bytes to the packet.
            #expect(parts.count == (length + 4 + 89) / 90)
        }
    }

    @Test("a packet that is longer than the maximum is refused")
    func aPacketHasAnEnd() {
        let longest = [UInt8](repeating: 1, count: ConsoleFraming.longestPacket)
        var decoder = ConsoleDecoder()
        #expect(ConsoleFraming.lines(carrying: longest).map { decoder.decode($0) } == [longest])
        #expect(ConsoleFraming.lines(carrying: longest + [1]) == nil)
    }
}

import OTALinks
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Decoder of SMP packets in console lines") struct ConsoleDecoderTests {
    static let packet = Array("Hello, world!".utf8)
    static let lines = Array("\u{06}\u{09}AA9IZWxsbywgd29ybGQhet4=\n".utf8)
    /// The same packet in lines of 8 bytes, from the documentation of `smp.packet.encode`.
    static let shortLines: [String] = [
        "\u{06}\u{09}AA9I\n", "\u{04}\u{14}ZWxs\n", "\u{04}\u{14}bywg\n", "\u{04}\u{14}d29y\n", "\u{04}\u{14}bGQh\n",
        "\u{04}\u{14}et4=\n",
    ]

    private static func packets(in text: String) -> [[UInt8]] {
        var decoder = ConsoleDecoder()
        return decoder.decode(text.utf8)
    }

    @Test("a packet is decoded from lines of any length, with LF or CR LF")
    func linesOfAnyLength() {
        #expect(Self.packets(in: Self.shortLines.joined()) == [Self.packet])
        #expect(
            Self.packets(in: "\u{06}\u{09}AA9IZ\r\n\u{04}\u{14}Wxsbywgd29\r\n\u{04}\u{14}ybGQhet4=\r\n") == [
                Self.packet
            ])
    }

    @Test("log lines between the lines of a packet are ignored")
    func aLogInBetween() {
        let log = "[00:00:01.000,000] <inf> app: tick\r\n"
        let text = Self.shortLines.joined(separator: log)
        #expect(Self.packets(in: log + text + log + text) == [Self.packet, Self.packet])
    }

    @Test("a shell prompt before the first line of a packet is ignored")
    func aPromptBeforeTheMarker() {
        #expect(Self.packets(in: "uart:~$ " + Self.shortLines.joined()) == [Self.packet])
    }

    @Test("a packet after a line that a reset cut short is decoded")
    func aDeviceThatIsResetInMidLine() {
        let torn = "\u{06}\u{09}AA9IZWx"
        #expect(Self.packets(in: torn + Self.shortLines.joined()) == [Self.packet])
        #expect(Self.packets(in: torn + "\n" + Self.shortLines.joined()) == [Self.packet])
        #expect(Self.packets(in: torn + "*** Booting MCUboot ***\r\n" + Self.shortLines.joined()) == [Self.packet])
    }

    @Test("continuation lines without a first line give no packet")
    func aContinuationOfNothingIsNone() {
        #expect(Self.packets(in: Self.shortLines.dropFirst().joined()) == [])
    }

    @Test(
        "a malformed packet is discarded and the next packet is decoded",
        arguments: [
            // Lengths 0 and 1, a packet longer than its length field, a wrong CRC, invalid Base64, padding in the middle.
            "AAA=", "AAEA", "AAJIZWxsbywgd29ybGQhet4=", "AA9IZWxsbywgd29ybGQhet8=", "AA9IZ*xs", "AA=9IZWxs", "AA9I=ZWx",
            "====",
        ])
    func whatIsNoPacketIsLeftOut(_ text: String) {
        #expect(Self.packets(in: "\u{06}\u{09}\(text)\n" + Self.shortLines.joined()) == [Self.packet])
    }

    @Test("a line without an end is discarded, and the next packet is decoded")
    func aLineWithoutAnEndIsNotKept() {
        var decoder = ConsoleDecoder()
        for _ in 0..<100 { #expect(decoder.decode(repeatElement(UInt8(ascii: "A"), count: 10_000)) == []) }
        #expect(decoder.decode([0x0A] + Self.lines) == [Self.packet])
    }
}

@Suite("Decoder of console lines: every split, every bit and random input") struct ExhaustiveConsoleDecoderTests {
    private static let packet = (0..<200).map { UInt8(truncatingIfNeeded: $0 &* 37) }

    @Test("a packet is decoded when its bytes arrive in three parts, for every pair of split positions")
    func cutAnywhere() throws {
        let lines = try #require(ConsoleFraming.lines(carrying: Self.packet))
        for first in lines.indices {
            for second in first..<lines.count {
                var decoder = ConsoleDecoder()
                let parts = [lines[..<first], lines[first..<second], lines[second...]]
                #expect(parts.flatMap { decoder.decode($0) } == [Self.packet])
            }
        }
    }

    @Test("a flipped bit never gives a different packet, and the next packet is decoded")
    func aFlippedBitIsNeverAPacket() throws {
        let lines = try #require(ConsoleFraming.lines(carrying: Self.packet))
        for index in lines.indices {
            for bit in 0..<8 {
                var flipped = lines
                flipped[index] ^= 1 << UInt8(bit)
                var decoder = ConsoleDecoder()
                let packets = decoder.decode(flipped)
                #expect(packets.allSatisfy { $0 == Self.packet }, "byte \(index), bit \(bit)")
                // The next packet is intact. The line feed replaces one that the flipped bit may have destroyed.
                #expect(decoder.decode([0x0A] + lines).last == Self.packet, "byte \(index), bit \(bit)")
            }
        }
    }

    @Test("the decoder accepts random input and decodes the next packet")
    func anythingMayCome() {
        var random = SplitMix64(seed: 4)
        let usual: [[UInt8]] = [
            [0x06, 0x09], [0x04, 0x14], [0x0A], Array("AA9I".utf8), Array("Zg==".utf8), [0x0D, 0x0A],
        ]
        for _ in 0..<20_000 {
            var decoder = ConsoleDecoder()
            for _ in 0..<Int.random(in: 1...12, using: &random) {
                let isUsual = Bool.random(using: &random)
                let part =
                    isUsual
                    ? usual.randomElement(using: &random) ?? [] : random.bytes(Int.random(in: 0...9, using: &random))
                _ = decoder.decode(part)
            }
            #expect(decoder.decode([0x0A] + ConsoleDecoderTests.lines).last == ConsoleDecoderTests.packet)
        }
    }
}

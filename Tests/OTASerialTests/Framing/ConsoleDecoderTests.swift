import OTASerial
import OTATestSupport
import OTAUpdate
import Testing

@Suite struct ConsoleDecoderTests {
    static let packet = Array("Hello, world!".utf8)
    static let lines = Array("\u{06}\u{09}AA9IZWxsbywgd29ybGQhet4=\n".utf8)
    /// The same in lines of 8 bytes, from the documentation of `smp.packet.encode`.
    static let shortLines: [String] = [
        "\u{06}\u{09}AA9I\n", "\u{04}\u{14}ZWxs\n", "\u{04}\u{14}bywg\n", "\u{04}\u{14}d29y\n", "\u{04}\u{14}bGQh\n",
        "\u{04}\u{14}et4=\n",
    ]

    private static func packets(in text: String) -> [[UInt8]] {
        var decoder = ConsoleDecoder()
        return decoder.decode(text.utf8)
    }

    @Test func linesOfAnyLength() {
        #expect(Self.packets(in: Self.shortLines.joined()) == [Self.packet])
        #expect(
            Self.packets(in: "\u{06}\u{09}AA9IZ\r\n\u{04}\u{14}Wxsbywgd29\r\n\u{04}\u{14}ybGQhet4=\r\n") == [
                Self.packet
            ])
    }

    @Test func aLogInBetween() {
        let log = "[00:00:01.000,000] <inf> app: tick\r\n"
        let text = Self.shortLines.joined(separator: log)
        #expect(Self.packets(in: log + text + log + text) == [Self.packet, Self.packet])
    }

    @Test func aPromptBeforeTheMarker() {
        #expect(Self.packets(in: "uart:~$ " + Self.shortLines.joined()) == [Self.packet])
    }

    @Test func aDeviceThatIsResetInMidLine() {
        let torn = "\u{06}\u{09}AA9IZWx"
        #expect(Self.packets(in: torn + Self.shortLines.joined()) == [Self.packet])
        #expect(Self.packets(in: torn + "\n" + Self.shortLines.joined()) == [Self.packet])
        #expect(Self.packets(in: torn + "*** Booting MCUboot ***\r\n" + Self.shortLines.joined()) == [Self.packet])
    }

    @Test func aContinuationOfNothingIsNone() {
        #expect(Self.packets(in: Self.shortLines.dropFirst().joined()) == [])
    }

    @Test(arguments: [
        // A length of 0 and of 1, a body longer than announced, a wrong CRC, no Base64, padding in the middle.
        "AAA=", "AAEA", "AAJIZWxsbywgd29ybGQhet4=", "AA9IZWxsbywgd29ybGQhet8=", "AA9IZ*xs", "AA=9IZWxs", "AA9I=ZWx",
        "====",
    ])
    func whatIsNoPacketIsLeftOut(_ text: String) {
        #expect(Self.packets(in: "\u{06}\u{09}\(text)\n" + Self.shortLines.joined()) == [Self.packet])
    }

    @Test func aLineWithoutAnEndIsNotKept() {
        var decoder = ConsoleDecoder()
        for _ in 0..<100 { #expect(decoder.decode(repeatElement(UInt8(ascii: "A"), count: 10_000)) == []) }
        #expect(decoder.decode([0x0A] + Self.lines) == [Self.packet])
    }
}

@Suite struct ExhaustiveConsoleDecoderTests {
    private static let packet = (0..<200).map { UInt8(truncatingIfNeeded: $0 &* 37) }

    @Test func cutAnywhere() throws {
        let lines = try #require(ConsoleFraming.lines(carrying: Self.packet))
        for first in lines.indices {
            for second in first..<lines.count {
                var decoder = ConsoleDecoder()
                let parts = [lines[..<first], lines[first..<second], lines[second...]]
                #expect(parts.flatMap { decoder.decode($0) } == [Self.packet])
            }
        }
    }

    @Test func aFlippedBitIsNeverAPacket() throws {
        let lines = try #require(ConsoleFraming.lines(carrying: Self.packet))
        for index in lines.indices {
            for bit in 0..<8 {
                var flipped = lines
                flipped[index] ^= 1 << UInt8(bit)
                var decoder = ConsoleDecoder()
                let packets = decoder.decode(flipped)
                #expect(packets.allSatisfy { $0 == Self.packet }, "byte \(index), bit \(bit)")
                // What comes next is not spoilt by it, but for a line feed that is no more.
                #expect(decoder.decode([0x0A] + lines).last == Self.packet, "byte \(index), bit \(bit)")
            }
        }
    }

    @Test func anythingMayCome() {
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

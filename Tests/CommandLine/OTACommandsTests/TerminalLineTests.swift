import FoundationEssentials
import OTACommands
import Testing

@Suite("Terminal and JSON lines") struct TerminalLineTests {
    /// Texts that control a terminal, forge a line, or are invisible.
    static let hostile = [
        "\u{1B}]0;title\u{7}", "\u{1B}[31mred", "\n✔ confirmed 9.9.9", "\rover", "a\r\nb", "\u{202E}gnp.exe",
        "\u{9B}31mred",
        "\u{9D}0;title\u{9C}", "\u{7F}", "\t", "\0", "\u{2028}line", "\u{2029}line", "\u{200B}", "\u{200F}",
        "\u{2066}a\u{2069}",
        "\u{FEFF}", "\u{AD}", "\u{61C}", "\u{3164}", "\u{115F}", "\u{FE0F}", "\u{E0041}", "\u{E0100}", "\u{34F}",
        "\u{85}",
    ]

    @Test("a terminal line shows each control or invisible character as an escape", arguments: hostile)
    func hostileTextIsEscaped(text: String) {
        let line = TerminalLine("before " + text + " after").rendered(hasColours: false)
        #expect(line.hasPrefix("before ") && line.hasSuffix(" after") && line.contains("\\"))
        #expect(Self.isSafe(line), "\(line)")
        let interpolated: TerminalLine = "before \(text) after"
        #expect(interpolated == TerminalLine("before " + text + " after"))
    }

    @Test("a terminal line escapes every control, format and separator character of Unicode")
    func allScalars() {
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let category = scalar.properties.generalCategory
            guard [.control, .format, .lineSeparator, .paragraphSeparator].contains(category) else { continue }
            let line = TerminalLine(String(scalar)).rendered(hasColours: false)
            #expect(
                line.hasPrefix("\\") && line.utf8.allSatisfy { (0x20...0x7E).contains($0) },
                "U+\(String(value, radix: 16))")
        }
    }

    @Test(
        "printable text of any script is not changed",
        arguments: ["naïve – “ok” …", "温度計", "Ωμ", "датчик", "حساس", "🔋 5 %"])
    func printableTextStays(text: String) {
        #expect(TerminalLine(text).rendered(hasColours: false) == text)
    }

    @Test("only a style and a terminal piece write control sequences")
    func controlSequences() {
        let line = TerminalLine("error:", .red) + TerminalLine(" \u{1B}[0m")
        #expect(line.rendered(hasColours: true) == "\u{1B}[1;31merror:\u{1B}[0m \\u{1B}[0m")
        #expect(line.rendered(hasColours: false) == "error: \\u{1B}[0m")
        #expect(TerminalPiece.line("a\nb").rendered(hasColours: false) == "a\\nb\n")
        #expect(TerminalPiece.part("a\nb").rendered(hasColours: false) == "a\\nb")
        #expect(TerminalPiece.eraseLines(2).rendered(hasColours: false) == "\r\u{1B}[2A\u{1B}[J")
    }

    @Test("a line is cut at a number of columns; a wide character counts as two, a combining mark as zero")
    func columns() {
        #expect(TerminalLine("kitchen").columns == 7 && TerminalLine("温度計").columns == 6)
        #expect(TerminalLine("e\u{301}").columns == 1)
        #expect(TerminalLine("kitchen").clipped(to: 7) == "kitchen")
        #expect(TerminalLine("kitchen").clipped(to: 5).rendered(hasColours: false) == "kitc…")
        for width in 0...12 {
            #expect(TerminalLine("温度計 thermometer").clipped(to: width).columns <= width)
        }
        let stacked = TerminalLine("e" + String(repeating: "\u{301}", count: 10_000)).clipped(to: 10)
        #expect(stacked.rendered(hasColours: false).unicodeScalars.count < 50)
    }

    @Test("a JSON line contains no control or invisible character, and decodes to the same text", arguments: hostile)
    func jsonIsEscaped(text: String) throws {
        let line = try JSONLine(["name": text]).text
        #expect(Self.isSafe(line), "\(line)")
        #expect(try JSONDecoder().decode([String: String].self, from: Data(line.utf8)) == ["name": text])
    }

    /// Whether the text contains no character that a terminal interprets. The list is independent of the source.
    static func isSafe(_ text: String) -> Bool {
        text.unicodeScalars.allSatisfy { scalar in
            switch scalar.value {
            case 0...0x1F, 0x7F...0x9F, 0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x180E, 0x200B...0x200F, 0x2028...0x202E,
                0x2060...0x206F,
                0x3164, 0xFE00...0xFE0F, 0xFEFF, 0xFFA0, 0xFFF9...0xFFFB, 0xE0000...0xE0FFF:
                false
            default: true
            }
        }
    }
}

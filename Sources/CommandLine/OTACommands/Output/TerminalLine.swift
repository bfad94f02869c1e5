import OTAFirmware

/// One line of text for the user, with styles.
///
/// A line contains only printable characters. Its initializers escape line feeds, control characters and invisible characters. So text from
/// a device, a file or the environment can neither control the terminal nor add a line. To move the cursor or to erase lines, write a
/// `TerminalPiece`.
package struct TerminalLine: Sendable, Equatable, ExpressibleByStringInterpolation {
    package enum Style: Sendable {
        case plain, red, yellow, cyan, dim

        /// The parameters of the control sequence SGR, which selects the style (ECMA-48, 8.3.117); nil if the style needs no control
        /// sequence.
        fileprivate var parameters: String? {
            switch self {
            case .plain: nil
            case .red: "1;31"
            case .yellow: "1;33"
            case .cyan: "36"
            case .dim: "2"
            }
        }
    }

    private struct Span: Sendable, Equatable {
        /// The text, without unprintable scalars.
        var text: String
        var style: Style
    }

    private var spans: [Span] = []

    /// Creates a line.
    ///
    /// - Parameter text: any text; unprintable scalars are escaped.
    package init(_ text: String, _ style: Style = .plain) {
        if !text.isEmpty { spans = [Span(text: text.escapingUnprintable, style: style)] }
    }

    package init(stringLiteral text: String) { self.init(text) }

    package static func + (left: TerminalLine, right: TerminalLine) -> TerminalLine {
        var line = left
        line.spans += right.spans
        return line
    }

    /// Splits a text of otaflash, such as a help page, into lines. Do not pass text from a device or a file, because such text could add
    /// lines.
    static func page(_ text: String) -> [TerminalLine] {
        text.split(separator: "\n", omittingEmptySubsequences: false).map { TerminalLine(String($0)) }
    }

    /// The width of the line on a terminal, in columns.
    package var columns: Int { spans.reduce(0) { $0 + $1.text.unicodeScalars.reduce(0) { $0 + $1.columns } } }

    /// Returns the line, padded with spaces to `width` columns.
    func padded(to width: Int) -> TerminalLine {
        self + TerminalLine(String(repeating: " ", count: max(0, width - columns)))
    }

    /// Returns the start of the line, at most `width` columns wide. A truncated line ends with `…`.
    package func clipped(to width: Int) -> TerminalLine {
        // Combining marks have no width, and a terminal stacks them. So the number of scalars is also limited.
        let scalars = spans.reduce(0) { $0 + $1.text.unicodeScalars.count }
        guard columns > width || scalars > 4 * width else { return self }
        var room = width - 1
        var marks = 3 * width
        var line = TerminalLine("")
        for span in spans {
            let kept = span.text.unicodeScalars.prefix { scalar in
                room -= scalar.columns
                marks -= scalar.columns == 0 ? 1 : 0
                return room >= 0 && marks >= 0
            }
            line.spans.append(Span(text: String(kept), style: span.style))
            if room < 0 || marks < 0 { break }
        }
        return width > 0 ? line + "…" : ""
    }

    /// Returns the line without its middle, at most `width` columns wide. `…` replaces the middle.
    ///
    /// - Parameter end: the number of columns to keep at the end; nil: the half.
    package func shortened(to width: Int, keeping end: Int? = nil) -> TerminalLine {
        let scalars = spans.flatMap { span in span.text.unicodeScalars.map { (scalar: $0, style: span.style) } }
        guard columns > width || scalars.count > 4 * width else { return self }
        guard width > 0 else { return "" }
        func kept(_ scalars: some Sequence<(scalar: Unicode.Scalar, style: Style)>, _ room: Int) -> [Span] {
            var (room, marks) = (room, 3 * room)
            return scalars.prefix {
                room -= $0.scalar.columns
                marks -= $0.scalar.columns == 0 ? 1 : 0
                return room >= 0 && marks >= 0
            }.map { Span(text: String($0.scalar), style: $0.style) }
        }
        var last = TerminalLine("")
        last.spans = kept(scalars.reversed(), min(end ?? (width - 1) / 2, width - 1)).reversed()
        var first = TerminalLine("")
        first.spans = kept(scalars, width - 1 - last.columns)
        return first + "…" + last
    }

    /// Returns the text to write. If the terminal has colours, the text contains SGR control sequences.
    package func rendered(hasColours: Bool) -> String {
        spans.map { span in
            guard hasColours, let parameters = span.style.parameters else { return span.text }
            return "\u{1B}[\(parameters)m\(span.text)\u{1B}[0m"
        }.joined()
    }
}

extension Unicode.Scalar {
    /// The blocks with wide scalars: East Asian Wide and Fullwidth (Unicode Standard Annex 11). In a block with wide and narrow scalars,
    /// every scalar counts as wide. If a wide scalar counted as narrow, a line could be wider than computed, and wrap.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7FF, 0xF900...0xFAFF, 0xFE30...0xFE6F,
        0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x16FE0...0x18CFF, 0x1AFF0...0x1B2FF, 0x1F000...0x1FAFF, 0x20000...0x3FFFD,
    ]

    /// The width of the scalar on a terminal, in columns.
    fileprivate var columns: Int {
        if isASCII { return 1 }
        switch properties.generalCategory {
        case .nonspacingMark, .enclosingMark: return 0
        default: break
        }
        return properties.isEmojiPresentation || Self.wide.contains { $0.contains(value) } ? 2 : 1
    }
}

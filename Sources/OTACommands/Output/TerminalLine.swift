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

/// Formats text in columns for the user.
package enum TextTable {
    /// Formats one line for each pair of a title and a value. The values are aligned.
    package static func pairs(_ pairs: [(String, String)]) -> [TerminalLine] {
        let labels = pairs.map { TerminalLine($0.0) }
        let width = labels.map(\.columns).max() ?? 0
        return zip(labels, pairs).map { label, pair in label.padded(to: width) + "  " + TerminalLine(pair.1) }
    }

    /// Formats a table with a line of headings. A cell that is wider than 40 columns is truncated.
    package static func rows(_ headings: [String], _ rows: [[String]]) -> [TerminalLine] {
        let all = ([headings] + rows).map { $0.map { TerminalLine($0).clipped(to: widestCell) } }
        let widths = headings.indices.map { column in all.map { $0[column].columns }.max() ?? 0 }
        return all.map { row in
            // The last cell is not padded, so that lines do not end with spaces.
            zip(row, widths).enumerated().reduce(TerminalLine("")) { line, cell in
                let (index, (text, width)) = cell
                return index == row.count - 1 ? line + text : line + text.padded(to: width) + "  "
            }
        }
    }

    /// Formats values that all have the same titles, such as ``pairs(_:)`` shows one of them.
    package static func rows(_ values: [[(String, String)]]) -> [TerminalLine] {
        rows((values.first ?? []).map(\.0), values.map { $0.map(\.1) })
    }

    private static let widestCell = 40
}

/// Text in columns, for people.
enum TextTable {
    /// Formats one line for each pair: the label, then the value. The values are aligned.
    static func pairs(_ pairs: [(String, String)]) -> [TerminalLine] {
        let labels = pairs.map { TerminalLine($0.0) }
        let width = labels.map(\.columns).max() ?? 0
        return zip(labels, pairs).map { label, pair in label.padded(to: width) + "  " + TerminalLine(pair.1) }
    }

    /// Formats rows below their headings. A cell with more than 40 columns is truncated.
    static func rows(_ headings: [String], _ rows: [[String]]) -> [TerminalLine] {
        let all = ([headings] + rows).map { $0.map { TerminalLine($0).clipped(to: widestCell) } }
        let widths = headings.indices.map { column in all.map { $0[column].columns }.max() ?? 0 }
        return all.map { row in
            // The last cell is not padded: lines do not end with spaces.
            zip(row, widths).enumerated().reduce(TerminalLine("")) { line, cell in
                let (index, (text, width)) = cell
                return index == row.count - 1 ? line + text : line + text.padded(to: width) + "  "
            }
        }
    }

    private static let widestCell = 40
}

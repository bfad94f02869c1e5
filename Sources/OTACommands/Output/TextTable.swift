/// Columns for people.
enum TextTable {
    /// A label and a value on each line, the values below each other.
    static func pairs(_ pairs: [(String, String)]) -> [TerminalLine] {
        let labels = pairs.map { TerminalLine($0.0) }
        let width = labels.map(\.columns).max() ?? 0
        return zip(labels, pairs).map { label, pair in label.padded(to: width) + "  " + TerminalLine(pair.1) }
    }

    /// Rows under their headings. A cell that is too wide is cut, so that it does not push the others away.
    static func rows(_ headings: [String], _ rows: [[String]]) -> [TerminalLine] {
        let all = ([headings] + rows).map { $0.map { TerminalLine($0).clipped(to: widestCell) } }
        let widths = headings.indices.map { column in all.map { $0[column].columns }.max() ?? 0 }
        return all.map { row in
            // No spaces at the end.
            zip(row, widths).enumerated().reduce(TerminalLine("")) { line, cell in
                let (index, (text, width)) = cell
                return index == row.count - 1 ? line + text : line + text.padded(to: width) + "  "
            }
        }
    }

    private static let widestCell = 40
}

/// Columns for people.
enum TextTable {
    /// A label and a value on each line, the values below each other.
    static func pairs(_ pairs: [(String, String)]) -> String {
        let width = pairs.map(\.0.count).max() ?? 0
        return pairs.map { label, value in "\(padded(label, to: width))  \(value.printableLine)" }.joined(
            separator: "\n")
    }

    /// Rows under their headings.
    static func rows(_ headings: [String], _ rows: [[String]]) -> String {
        let all = [headings] + rows
        let widths = headings.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
        return all.map { row in
            let cells = zip(row, widths).map { padded($0, to: $1) }.joined(separator: "  ")
            return String(cells.reversed().drop { $0 == " " }.reversed())
        }.joined(separator: "\n")
    }

    private static func padded(_ text: String, to width: Int) -> String {
        text + String(repeating: " ", count: max(0, width - text.count))
    }
}

/// A table with a line of headings, for the user.
///
/// Without a terminal, each cell is complete. On a terminal, the table fits the width if possible: the middle of long cells is replaced by
/// `…`, except in identifiers. If this is not enough, each row with a long first cell has this cell on a line of its own.
package struct TextTable: Sendable {
    package struct Column: Sendable, ExpressibleByStringLiteral {
        let title: String
        /// True if a cell can be the argument of the next command, such as an address. Such a cell is never shortened.
        let isIdentifier: Bool

        private init(_ title: String, isIdentifier: Bool) { (self.title, self.isIdentifier) = (title, isIdentifier) }

        package init(stringLiteral title: String) { self.init(title, isIdentifier: false) }

        package static func identifier(_ title: String) -> Column { Column(title, isIdentifier: true) }
    }

    package struct Row: Sendable {
        var cells: [String]
        /// Lines below the row. They are never shortened.
        var details: [TerminalLine] = []
    }

    private let columns: [Column]
    private let rows: [Row]

    package init(_ columns: [Column], _ rows: [[String]]) { self.init(columns, rows.map { Row(cells: $0) }) }

    init(_ columns: [Column], _ rows: [Row]) { (self.columns, self.rows) = (columns, rows) }

    /// Creates a table with one row for each value. All values have the same titles. ``pairs(_:)`` shows one value.
    package init(_ values: [[(String, String)]], identifiers: Set<String>) {
        let titles = (values.first ?? []).map(\.0)
        self.init(
            titles.map { identifiers.contains($0) ? .identifier($0) : Column(stringLiteral: $0) },
            values.map { $0.map(\.1) })
    }

    /// Creates a table with a row for each device. Columns without a value are omitted. Below the row of a failed device are the reason and
    /// the next steps.
    init<Device>(
        devices: [Device], _ columns: [(Column, (Device) -> String?)], _ failure: (Device) -> Failure?
    ) {
        let columns = columns.filter { column in devices.contains { column.1($0) != nil } }
        self.init(
            columns.map(\.0),
            devices.map { device in
                var details: [TerminalLine] = []
                if let failure = failure(device) {
                    details =
                        [TerminalLine("  \(failure.message)")] + failure.hints.map { TerminalLine("  hint: \($0)") }
                }
                return Row(cells: columns.map { $0.1(device) ?? "–" }, details: details)
            })
    }

    /// Formats one line for each pair of a title and a value. The values are aligned.
    package static func pairs(_ pairs: [(String, String)]) -> [TerminalLine] {
        let labels = pairs.map { TerminalLine($0.0) }
        let width = labels.map(\.columns).max() ?? 0
        return zip(labels, pairs).map { label, pair in label.padded(to: width) + "  " + TerminalLine(pair.1) }
    }

    /// Formats the table.
    ///
    /// - Parameter width: the width of the terminal in columns; nil: no terminal, so nothing is shortened.
    package func lines(fitting width: Int? = nil) -> [TerminalLine] {
        let blocks = blocks(fitting: width)
        return (blocks.first ?? []) + zip(blocks.dropFirst(), rows).flatMap { $0 + $1.details }
    }

    /// The lines of the headings, and of each row without its details.
    private func blocks(fitting width: Int?) -> [[TerminalLine]] {
        let cells = ([columns.map(\.title)] + rows.map(\.cells)).map { $0.map { TerminalLine($0) } }
        let natural = columns.indices.map { column in cells.map { $0[column].columns }.max() ?? 0 }
        let widths = width.map { shortened(natural, to: $0) } ?? natural
        guard let width else { return cells.map { [Self.joined($0, widths)] } }
        if Self.total(widths) > width, columns.count > 1 {
            let room = width - Self.gap.columns - Self.total(Array(widths.dropFirst()))
            let first = cells.map { $0[0].columns }.filter { $0 <= room }.max() ?? 0
            let indent = TerminalLine("").padded(to: first) + Self.gap
            let others = TextTable(
                Array(columns.dropFirst()), rows.map { Row(cells: Array($0.cells.dropFirst())) })
            return zip(cells, others.blocks(fitting: width - indent.columns)).map { row, lines in
                guard row[0].columns <= first else { return row.prefix(1) + lines.map { indent + $0 } }
                return lines.prefix(1).map { row[0].padded(to: first) + Self.gap + $0 }
                    + lines.dropFirst().map { indent + $0 }
            }
        }
        return cells.map { row in
            let fitting = zip(row, zip(columns, widths)).map { cell, place in
                place.0.isIdentifier ? cell : cell.shortened(to: place.1)
            }
            return [Self.joined(fitting, widths)]
        }
    }

    private func shortened(_ natural: [Int], to width: Int) -> [Int] {
        for longest in stride(from: width, through: Self.shortestCell, by: -1) {
            let widths = zip(columns, natural).map { $0.isIdentifier ? $1 : min($1, longest) }
            if Self.total(widths) <= width { return widths }
        }
        return zip(columns, natural).map { $0.isIdentifier ? $1 : min($1, Self.shortestCell) }
    }

    private static func total(_ widths: [Int]) -> Int { widths.reduce(0, +) + gap.columns * (widths.count - 1) }

    private static func joined(_ row: [TerminalLine], _ widths: [Int]) -> TerminalLine {
        // The last cell is not padded, so that lines do not end with spaces.
        zip(row, widths).enumerated().reduce(TerminalLine("")) { line, cell in
            let (index, (text, width)) = cell
            return index == row.count - 1 ? line + text : line + text.padded(to: width) + gap
        }
    }

    private static let gap: TerminalLine = "  "
    /// The width to which a cell can be shortened, in columns. Versions, states and figures are usually not wider.
    private static let shortestCell = 20
}

/// The screen of the terminal: the history, or the list of peers, above the typing line. It is a value without a terminal.
public struct ChatScreen: Sendable {
    /// The number of entries in the history. A new entry then replaces the oldest one.
    public static let limit = 500

    private let name: String
    private var history: [(entry: Entry, isDelivered: Bool)] = []

    public init(name: String) { self.name = name }

    public mutating func show(_ entry: Entry) {
        switch entry {
        case .delivered(let message, _):
            let index = history.lastIndex { if case .sent(message, _) = $0.entry { true } else { false } }
            if let index { history[index].isDelivered = true }
        case .peer: break
        case .notice, .sent, .received:
            history.append((entry, false))
            if history.count > Self.limit { history.removeFirst() }
        }
    }

    /// Returns the lines to show. The last one is the typing line.
    public func lines(_ messenger: Messenger, _ typing: TypingLine, width: Int, height: Int) -> [String] {
        let title =
            messenger.chatName.map { "\(name), \(messenger.isOpen ? "connected" : "not connected") to \($0)" }
            ?? "\(name), no chat. Type the number of a peer."
        let peers = messenger.peers.flatMap { wrapped($0.description, width) }
        // The end of the history fills the screen.
        let above =
            history.suffix(height).flatMap { wrapped(text(of: $0.entry, $0.isDelivered), width) }
            + (messenger.chatName == nil ? peers : [])
        // The end of a long typing line is visible.
        let typing = String(("> " + typing.text).suffix(width - 1))
        let top = [String(Self.beginning(of: title[...], columns: width)), ""]
        return top + above.suffix(max(1, height - 4)) + ["", typing]
    }

    private func text(of entry: Entry, _ isDelivered: Bool) -> String {
        switch entry {
        case .sent(_, let text): "\(name): \(text) \(isDelivered ? "✓" : "…")"
        default: entry.line ?? ""
        }
    }

    /// Cuts a text into lines. All lines after the first one are indented, so that no part of a text of a peer looks like another entry. Only
    /// the end of a long text is on the screen, so its middle is not wrapped.
    private func wrapped(_ text: String, _ width: Int) -> [String] {
        let step = max(1, width - 2)
        let first = Self.beginning(of: text[...], columns: width)
        var (rest, lines) = (Substring(text[first.endIndex...].unicodeScalars.suffix(step * 100)), [first])
        while !rest.isEmpty {
            let line = Self.beginning(of: rest, columns: step)
            lines.append("  " + line)
            rest = rest[line.endIndex...]
        }
        return lines.map { String($0) }
    }

    /// Returns the longest beginning of a text that fits a line. The terminal would wrap a longer line without an indent.
    ///
    /// A character that needs more columns than a line is cut. A character of joined Hangul consonants can have any width.
    private static func beginning(of text: Substring, columns: Int) -> Substring {
        var (end, free) = (text.startIndex, columns)
        for index in text.indices {
            let next = text.index(after: index)
            free -= text.unicodeScalars[index..<next].reduce(0) { $0 + self.columns($1) }
            if free < 0 { break }
            end = next
        }
        guard end == text.startIndex else { return text[..<end] }
        free = columns
        let cut = text.unicodeScalars.firstIndex { scalar in
            free -= self.columns(scalar)
            return free < 0
        }
        // A line has at least one scalar, so that the text comes to its end.
        let least = text.unicodeScalars.prefix(1).endIndex
        return text[..<max(least, cut ?? text.endIndex)]
    }

    /// The maximum number of columns. Swift does not know the width of a scalar, and no other scalars have two columns.
    private static func columns(_ scalar: Unicode.Scalar) -> Int {
        scalar.value >= 0x2300 || 0x1100...0x115F ~= scalar.value ? 2 : 1
    }
}

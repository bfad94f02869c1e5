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
        return [String(title.prefix(width)), ""] + above.suffix(max(1, height - 4)) + ["", typing]
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
        var (rest, lines) = (text.dropFirst(width).suffix(step * 100), [String(text.prefix(width))])
        while !rest.isEmpty {
            lines.append("  " + rest.prefix(step))
            rest = rest.dropFirst(step)
        }
        return lines
    }
}

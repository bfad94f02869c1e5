/// The screen of the terminal: the history, or the list of peers, above the typing line. It is a value without a terminal.
public struct ChatScreen: Sendable {
    private let name: String
    private var history: [(entry: Entry, isDelivered: Bool)] = []
    private var typed: [UInt8] = []
    /// Whether the next bytes are the rest of an escape sequence, such as an arrow key.
    private var isEscape = false

    public init(name: String) { self.name = name }

    public mutating func show(_ entry: Entry) {
        switch entry {
        case .delivered(let sequence):
            let index = history.lastIndex {
                if case .sent(sequence, _) = $0.entry { !$0.isDelivered } else { false }
            }
            if let index { history[index].isDelivered = true }
        case .peer: break
        case .notice, .sent, .received: history.append((entry, false))
        }
    }

    /// Adds typed bytes, and returns the completed lines. A read from a terminal may cut a character.
    public mutating func type(_ bytes: [UInt8]) -> [String] {
        bytes.compactMap { byte in
            if isEscape {
                // The last byte of a sequence is a letter or "~". "[" and "O" are its second byte.
                isEscape = !(0x40...0x7E ~= byte) || byte == UInt8(ascii: "[") || byte == UInt8(ascii: "O")
                return nil
            }
            switch byte {
            case 0x0A, 0x0D:
                defer { typed = [] }
                return String(decoding: typed, as: UTF8.self)
            case 0x08, 0x7F: typed = Array(String(decoding: typed, as: UTF8.self).dropLast().utf8)
            case 0x15: typed = []
            case 0x1B: isEscape = true
            case 0..<0x20: break
            default: typed.append(byte)
            }
            return nil
        }
    }

    /// Returns the lines to show. The last one is the typing line.
    public func lines(_ messenger: Messenger, width: Int, height: Int) -> [String] {
        let title =
            messenger.chatName.map { "\(name) with \($0), \(messenger.isOpen ? "connected" : "not connected")" }
            ?? "\(name), no chat. Type the number of a peer."
        let peers = messenger.peers.enumerated().map { "\($0.offset + 1)  \($0.element.name)  \($0.element.address)" }
        let above =
            history.flatMap { wrapped(text(of: $0.entry, $0.isDelivered), width) }
            + (messenger.chatName == nil ? peers : [])
        // The end of a long typing line is visible.
        let typing = String(("> " + String(decoding: typed, as: UTF8.self)).suffix(width - 1))
        return [title, ""] + above.suffix(max(1, height - 4)) + ["", typing]
    }

    private func text(of entry: Entry, _ isDelivered: Bool) -> String {
        switch entry {
        case .sent(_, let text): "\(name): \(text) \(isDelivered ? "✓" : "…")"
        default: entry.line ?? ""
        }
    }

    /// Cuts a text into lines. Only the end of a long text is on the screen, so its beginning is not wrapped.
    private func wrapped(_ text: String, _ width: Int) -> [String] {
        var (rest, lines) = (text.suffix(width * 100), [String]())
        while !rest.isEmpty {
            lines.append(String(rest.prefix(width)))
            rest = rest.dropFirst(width)
        }
        return lines
    }
}

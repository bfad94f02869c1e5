/// An entry of the history.
public enum Entry: Sendable, Hashable {
    case notice(String)
    /// A change of the peers in range.
    case peer(String)
    /// A message of this peer, with its number.
    case sent(UInt32, String)
    case received(from: String, String)
    /// The other peer has received the message with this number.
    case delivered(UInt32)

    /// The line for a program without a terminal. Nil: the entry has no line.
    public var line: String? {
        switch self {
        case .notice(let text), .peer(let text): text
        case .sent: nil
        case .received(let name, let text): "\(name): \(text)"
        case .delivered(let sequence): "Delivered: message \(sequence)"
        }
    }
}

/// Replaces control characters, which would change the terminal, and characters that change the direction of the text.
public func visible(_ text: String) -> String {
    String(
        String.UnicodeScalarView(
            text.unicodeScalars.map { scalar in
                switch scalar.properties.generalCategory {
                case .control, .format, .lineSeparator, .paragraphSeparator: scalar == "\u{200D}" ? scalar : "\u{FFFD}"
                default: scalar
                }
            }))
}

/// The line that a person types, or a line of standard input. A read may cut a character.
public struct TypingLine: Sendable {
    private var typed: [UInt8] = []
    /// Whether the next bytes are the rest of an escape sequence, such as an arrow key.
    private var isEscape = false

    /// Whether the user has typed Control-D on an empty line.
    public private(set) var hasEnded = false

    private let isEdited: Bool

    /// - Parameter isEdited: whether a person types, so that control characters edit the line. Otherwise only a line end has a meaning.
    public init(isEdited: Bool = true) { self.isEdited = isEdited }

    public var text: String { String(decoding: typed, as: UTF8.self) }

    /// Adds typed bytes, and returns the completed lines.
    public mutating func type(_ bytes: [UInt8]) -> [String] {
        bytes.compactMap { byte in
            if isEscape {
                // The last byte of a sequence is a letter or "~". "[" and "O" are its second byte.
                isEscape = !(0x40...0x7E ~= byte) || byte == UInt8(ascii: "[") || byte == UInt8(ascii: "O")
                return nil
            }
            switch byte {
            case 0x0A: return end()
            case _ where !isEdited: add(byte)
            case 0x0D: return end()
            case 0x04 where typed.isEmpty: hasEnded = true
            case 0x08, 0x7F: typed = Array(text.dropLast().utf8)
            case 0x15: typed = []
            case 0x1B: isEscape = true
            case 0..<0x20: break
            default: add(byte)
            }
            return nil
        }
    }

    private mutating func add(_ byte: UInt8) {
        // A longer line cannot be sent.
        if typed.count <= Conversation.maximumLength { typed.append(byte) }
    }

    /// Returns the line, and starts a new one. The last line of standard input may have no line end.
    public mutating func end() -> String {
        defer { typed = [] }
        return text
    }
}

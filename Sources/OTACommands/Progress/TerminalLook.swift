/// What a terminal can show: colours unless `NO_COLOR` is set (https://no-color.org), line-drawing characters where its
/// locale has them.
struct TerminalLook: Sendable {
    /// Back to the first column, and the line is empty.
    static let startOfLine = "\r\u{1B}[K"

    let hasColours: Bool
    let hasUnicode: Bool

    init(ofTerminal isTerminal: Bool) {
        hasColours = isTerminal && Environment.value("NO_COLOR") == nil && Environment.value("TERM") != "dumb"
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { Environment.value($0) }.first ?? ""
        hasUnicode = locale.lowercased().contains("utf")
    }

    var ellipsis: String { hasUnicode ? "…" : "..." }

    func red(_ text: String) -> String { coloured(text, "1;31") }
    func yellow(_ text: String) -> String { coloured(text, "1;33") }
    func cyan(_ text: String) -> String { coloured(text, "36") }
    func dim(_ text: String) -> String { coloured(text, "2") }

    /// - Parameter part: 0 to 1.
    func bar(_ part: Double, length: Int) -> String {
        let filled = max(0, min(length, Int(part * Double(length))))
        let (full, empty) = hasUnicode ? (hasColours ? ("━", "━") : ("█", "░")) : ("#", ".")
        return cyan(String(repeating: full, count: filled)) + dim(String(repeating: empty, count: length - filled))
    }

    private func coloured(_ text: String, _ code: String) -> String {
        hasColours && !text.isEmpty ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}

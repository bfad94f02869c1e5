/// What a terminal can show: colours unless `NO_COLOR` is set (https://no-color.org), line-drawing characters where its
/// locale has them.
struct TerminalLook: Sendable {
    let hasColours: Bool
    let hasUnicode: Bool

    init(ofTerminal isTerminal: Bool) {
        hasColours = isTerminal && Environment.value("NO_COLOR") == nil && Environment.value("TERM") != "dumb"
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { Environment.value($0) }.first ?? ""
        hasUnicode = locale.lowercased().contains("utf")
    }

    var ellipsis: String { hasUnicode ? "…" : "..." }

    /// - Parameter part: 0 to 1.
    func bar(_ part: Double, length: Int) -> TerminalLine {
        let filled = max(0, min(length, Int(part * Double(length))))
        let (full, empty) = hasUnicode ? (hasColours ? ("━", "━") : ("█", "░")) : ("#", ".")
        return TerminalLine(String(repeating: full, count: filled), .cyan)
            + TerminalLine(String(repeating: empty, count: length - filled), .dim)
    }
}

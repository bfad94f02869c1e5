import OTAClient

/// The capabilities of a terminal: colours unless `NO_COLOR` is set (https://no-color.org), and Unicode characters if its locale
/// uses UTF-8.
struct TerminalLook: Sendable {
    let hasColours: Bool
    let hasUnicode: Bool

    init(ofTerminal isTerminal: Bool) {
        hasColours = isTerminal && Environment.value("NO_COLOR") == nil && Environment.value("TERM") != "dumb"
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { Environment.value($0) }.first ?? ""
        hasUnicode = locale.lowercased().contains("utf")
    }

    var ellipsis: String { hasUnicode ? "…" : "..." }

    /// Draws a progress bar.
    ///
    /// - Parameters:
    ///   - part: the completed part, 0 to 1.
    ///   - length: the width in columns.
    func bar(_ part: Double, length: Int) -> TerminalLine {
        let filled = max(0, min(length, Int(part * Double(length))))
        let (full, empty) = hasUnicode ? (hasColours ? ("━", "━") : ("█", "░")) : ("#", ".")
        return TerminalLine(String(repeating: full, count: filled), .cyan)
            + TerminalLine(String(repeating: empty, count: length - filled), .dim)
    }
}

import OTAClient
import OTAUpdate

/// Shows the progress as a bar, which is redrawn in the last line of a terminal. Events are permanent lines above the bar.
struct ProgressBar: ProgressRenderer {
    let terminal: TerminalCapabilities
    let write: @Sendable ([TerminalPiece]) -> Void
    /// Returns the width of the terminal in columns. This function is called for each redraw, because a window can be resized.
    let columns: @Sendable () -> Int
    private var phase = UpdatePhase.connect
    private var offset = 0
    private var total = 0
    private var rate = RateMeter()
    private var throttle = Throttle()
    /// True from the loss of the link until an event shows that a link is open again. During this time, no rate is shown.
    private var isLinkDown = false
    /// The rate of the whole transfer, which is also in the result; nil if the transfer is not complete.
    private var finalRate: Double?

    init(
        terminal: TerminalCapabilities, columns: @escaping @Sendable () -> Int,
        write: @escaping @Sendable ([TerminalPiece]) -> Void
    ) {
        self.terminal = terminal
        self.columns = columns
        self.write = write
    }

    mutating func show(_ progress: UpdateProgress, at time: Duration) {
        switch progress {
        case .phase(let phase):
            // After the transfer, the last bar remains as a permanent line.
            if self.phase == .transfer, phase != .transfer { write([.startOfLine, .line(bar())]) }
            self.phase = phase
            (isLinkDown, finalRate) = (false, nil)
            draw()
        case .transferred(let offset, let total, _):
            isLinkDown = false
            rate.add(offset: offset, at: time)
            (self.offset, self.total) = (offset, total)
            if throttle.isDue() { draw() }
        // A gap (lost chunks) is not shown, because gaps can be frequent, and the session sends the lost chunks again immediately. The
        // result contains the number of gaps.
        case .gap: break
        case .resumed(let offset, let total):
            rate.add(offset: offset, at: time, isContinuous: false)
            (self.offset, self.total) = (offset, total)
            keep(progress)
        case .linkLost:
            (isLinkDown, rate) = (true, RateMeter())
            keep(progress)
        case .connectionFailed, .discarded, .nothingToResume, .downgrade, .deviceReset, .encoding, .plain, .note:
            keep(progress)
        case .uploaded(let transfer): finalRate = transfer.bytesPerSecond
        case .reconnected:
            isLinkDown = false
            // A reconnection after an intended restart is not reported.
            if phase != .restart { keep(progress) }
        // The bar does not show the confirmation, because the result of the command reports it.
        case .confirmed: break
        }
    }

    mutating func finish() { write([.startOfLine]) }

    private func keep(_ progress: UpdateProgress) {
        guard let line = ProgressText.line(for: progress) else { return }
        write([.startOfLine, .line(TerminalLine(line))])
        draw()
    }

    private func draw() {
        let text = isLinkDown && phase != .restart ? "Reconnecting" : ProgressText.line(for: phase)
        let words = "\(text) \(terminal.ellipsis)"
        let line = phase == .transfer && total > 0 ? bar() : TerminalLine(words, .dim).clipped(to: columns() - 1)
        write([.startOfLine, .part(line)])
    }

    /// The line with the bar and the figures, for example the percentage and the rate.
    ///
    /// A wrapped line cannot be redrawn. So figures that do not fit are omitted, starting at the right. The figures have fixed widths, so
    /// that they do not move.
    private func bar() -> TerminalLine {
        let part = total > 0 ? Double(offset) / Double(total) : 0
        let whole = Figures.bytes(total)
        let speed = isLinkDown ? "" : (finalRate ?? rate.bytesPerSecond).map(Figures.rate) ?? ""
        let left = offset < total ? rate.secondsLeft(to: total).map(Figures.remaining) ?? "" : ""
        var figures: [Figure] = [
            Figure(text: "\(Int(part * 100)) %", width: 5),
            Figure(text: "\(Figures.bytes(offset)) of \(whole)", width: whole.count + 13),
            Figure(text: speed, width: 10),
            Figure(text: left, width: 16),
        ]
        if isLinkDown { figures.replaceSubrange(2..., with: [Figure(text: "reconnecting", width: 12)]) }
        let room = columns() - 1
        func width() -> Int { figures.reduce(0) { $0 + $1.padded.count + 1 } }
        while figures.count > 1, width() + Self.shortestBar > room { figures.removeLast() }
        let words = figures.map(\.padded).joined(separator: " ")
        let length = min(Self.longestBar, room - width())
        return length < Self.shortestBar
            ? TerminalLine(words) : terminal.bar(part, length: length) + TerminalLine(" " + words)
    }

    private struct Figure {
        let text: String
        let width: Int

        var padded: String { String(repeating: " ", count: max(0, width - text.count)) + text }
    }

    private static let shortestBar = 10
    private static let longestBar = 40
}

/// The capabilities of a terminal. Colours are used on a terminal, unless `NO_COLOR` is set (https://no-color.org) or `TERM` is `dumb`.
/// Unicode characters are used if the locale uses UTF-8.
struct TerminalCapabilities: Sendable {
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
    ///   - part: the completed fraction, 0 to 1.
    ///   - length: the width in columns.
    func bar(_ part: Double, length: Int) -> TerminalLine {
        let filled = max(0, min(length, Int(part * Double(length))))
        let (full, empty) = hasUnicode ? (hasColours ? ("━", "━") : ("█", "░")) : ("#", ".")
        return TerminalLine(String(repeating: full, count: filled), .cyan)
            + TerminalLine(String(repeating: empty, count: length - filled), .dim)
    }
}

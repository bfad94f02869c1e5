import OTAUpdate

/// One line at the foot of a terminal, drawn over and over; what is worth keeping scrolls away above it.
struct ProgressBar: ProgressRenderer {
    let look: TerminalLook
    /// Writes as it stands, without a line feed.
    let write: @Sendable (String) -> Void
    /// Asked anew each time: a window can be resized.
    let columns: @Sendable () -> Int
    private var phase = UpdatePhase.connect
    private var offset = 0
    private var total = 0
    private var rate = RateMeter()
    private var throttle = Throttle()

    init(look: TerminalLook, columns: @escaping @Sendable () -> Int, write: @escaping @Sendable (String) -> Void) {
        self.look = look
        self.columns = columns
        self.write = write
    }

    mutating func show(_ progress: UpdateProgress, at time: Duration) {
        switch progress {
        case .phase(let phase):
            // The finished bar stays.
            if self.phase == .transfer, phase != .transfer { write(TerminalLook.startOfLine + bar() + "\n") }
            self.phase = phase
            draw()
        case .transferred(let offset, let total):
            rate.add(offset: offset, at: time)
            (self.offset, self.total) = (offset, total)
            if throttle.isDue() { draw() }
        // Too many to keep, and each mended at once: the answer counts them.
        case .gap: break
        case .resumed(let offset, let total):
            rate.add(offset: offset, at: time, isContinuous: false)
            (self.offset, self.total) = (offset, total)
            keep(progress)
        case .linkLost, .reconnected, .discarded, .deviceReset, .note: keep(progress)
        // The answer says it.
        case .confirmed: break
        }
    }

    mutating func finish() { write(TerminalLook.startOfLine) }

    private func keep(_ progress: UpdateProgress) {
        guard let line = ProgressText.line(for: progress) else { return }
        write("\(TerminalLook.startOfLine)\(line.printable)\n")
        draw()
    }

    private func draw() {
        let line = phase == .transfer && total > 0 ? bar() : look.dim("\(ProgressText.line(for: phase)) \(look.ellipsis)")
        write(TerminalLook.startOfLine + line)
    }

    /// What does not fit is left out, the least important first: a line that wraps could not be drawn over.
    private func bar() -> String {
        let part = total > 0 ? Double(offset) / Double(total) : 0
        let percentage = "\(Int(part * 100)) %"
        var figures = [String(repeating: " ", count: max(0, 5 - percentage.count)) + percentage]
        figures.append("\(Figures.bytes(offset)) of \(Figures.bytes(total))")
        if let speed = rate.bytesPerSecond { figures.append(Figures.rate(speed)) }
        if offset < total, let left = rate.secondsLeft(to: total) { figures.append("\(Figures.time(left)) left") }
        let room = columns() - 1
        while figures.count > 1, figures.joined(separator: "  ").count + Self.shortestBar > room { figures.removeLast() }
        let words = figures.joined(separator: "  ")
        let length = min(Self.longestBar, room - words.count - 1)
        return length < Self.shortestBar ? words : "\(look.bar(part, length: length)) \(words)"
    }

    private static let shortestBar = 10
    private static let longestBar = 40
}

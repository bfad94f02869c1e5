import OTAUpdate

/// Reports progress as lines for files and logs: one for each phase, each tenth of the image and each event.
struct ProgressLines: ProgressRenderer {
    let write: @Sendable (TerminalLine) -> Void
    private var rate = RateMeter()
    private var tenth = 0

    init(write: @escaping @Sendable (TerminalLine) -> Void) { self.write = write }

    mutating func show(_ progress: UpdateProgress, at time: Duration) {
        switch progress {
        case .phase(let phase): write(TerminalLine(ProgressText.line(for: phase)))
        case .transferred(let offset, let total): advance(to: offset, of: total, at: time)
        case .resumed(let offset, let total):
            rate.add(offset: offset, at: time, isContinuous: false)
            tenth = Self.tenth(offset, total)
            fallthrough
        default:
            if let line = ProgressText.line(for: progress) { write(TerminalLine(line)) }
        }
    }

    private mutating func advance(to offset: Int, of total: Int, at time: Duration) {
        rate.add(offset: offset, at: time)
        let reached = Self.tenth(offset, total)
        guard reached > tenth else { return }
        tenth = reached
        var line = "\(reached * 10) %, \(offset) of \(total) bytes"
        if let speed = rate.bytesPerSecond { line += ", \(Figures.rate(speed))" }
        if offset < total, let left = rate.secondsLeft(to: total) { line += ", \(Figures.remaining(left))" }
        write(TerminalLine(line))
    }

    private static func tenth(_ offset: Int, _ total: Int) -> Int { total > 0 ? offset * 10 / total : 0 }
}

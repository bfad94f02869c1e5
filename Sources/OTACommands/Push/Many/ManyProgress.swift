import OTAClient
import OTAUpdate

/// Shows the progress of a push to several devices.
///
/// With the style `bar`, each device has one line on the terminal, and this line is redrawn. With the styles `lines` and `json`, the lines
/// or events of the devices are mixed, and each line or event names its device. Only one task at a time uses a display.
final class ManyProgress {
    private let console: Console
    private let devices: [String]
    /// The console of each device.
    private let consoles: [Console]
    private var renderers: [(any ProgressRenderer)?] = []
    private var rows: [Row]
    private var throttle = Throttle()
    private var drawnLines = 0

    init(_ console: Console, _ devices: [String], _ consoles: [Console]) {
        self.console = console
        self.devices = devices
        self.consoles = consoles
        rows = devices.map { _ in Row() }
        if console.style != .bar { renderers = consoles.map(\.renderer) }
        draw()
    }

    func show(_ progress: UpdateProgress, at time: Duration, of index: Int) {
        consoles[index].debug(
            "\(Figures.decimal(time.seconds, places: 3)) s: \(ProgressText.logLine(for: progress))")
        if let text = ProgressText.warning(for: progress) { consoles[index].warnings.add(text) }
        if console.style == .bar {
            rows[index].note(progress, at: time)
            if let text = message(in: progress) {
                erase()
                write(text, of: index)
                draw()
            } else if throttle.isDue() {
                draw()
            }
        } else if renderers[index] != nil {
            renderers[index]?.show(progress, at: time)
        } else if let text = message(in: progress) {
            write(text, of: index)
        }
    }

    /// A note or a warning for the user.
    private enum Message {
        case note(String)
        case warning(String)
    }

    private func message(in progress: UpdateProgress) -> Message? {
        if let text = ProgressText.warning(for: progress) { return .warning(text) }
        if case .note(let text) = progress { return .note(text) }
        return nil
    }

    private func write(_ message: Message, of index: Int) {
        switch message {
        case .note(let text): consoles[index].note(text)
        case .warning(let text): consoles[index].warn(text)
        }
    }

    /// Shows the state of a device outside its session, such as `Waiting`.
    func set(_ text: String, of index: Int) {
        rows[index] = Row(text: text)
        draw()
    }

    /// Shows that a device was updated. The log of a failed push then does not need its lines.
    func setUpdated(_ index: Int) {
        consoles[index].removeRecentLog()
        set("Ended", of: index)
    }

    /// Shows at once that the push to a device failed. After a signal, all running pushes end, so their failures are not news.
    func setFailed(_ failure: Failure, of index: Int) {
        if failure.exit != .interrupted {
            erase()
            consoles[index].reportDevice(failure)
        }
        set("Failed: \(failure.code)", of: index)
    }

    /// Shows a note, which is about a device if `index` is not nil.
    func note(_ text: String, of index: Int? = nil) {
        erase()
        (index.map { consoles[$0] } ?? console).note(text)
        draw()
    }

    /// Erases the lines of the devices before the result is printed.
    func finish() { erase() }

    private func erase() {
        guard console.style == .bar else { return }
        console.write([.eraseLines(drawnLines)])
        drawnLines = 0
    }

    private func draw() {
        guard console.style == .bar else { return }
        let (height, columns) = (StandardStream.error.rows ?? 24, StandardStream.error.columns ?? 80)
        let width = min(devices.map(\.count).max() ?? 0, max(12, columns / 3))
        // The lines must fit on the terminal, because scrolled lines cannot be redrawn. If there are more devices than lines, the devices
        // whose update runs are shown, and as many of the other devices as fit.
        let room = max(1, height - 2)
        var shown = Array(devices.indices)
        if shown.count > room { shown = Array((shown.filter { rows[$0].isActive } + shown).uniqued().prefix(room)) }
        let lines = shown.sorted().map { index in
            let name = TerminalLine(devices[index]).clipped(to: width).padded(to: width)
            return (name + "  " + rows[index].line(console.terminal)).clipped(to: columns - 1)
        }
        let ended = rows.count { $0.isEnded }
        let sum = TerminalLine("\(ended) of \(devices.count) devices ended", .dim).clipped(to: columns - 1)
        console.write([.eraseLines(drawnLines)] + lines.map { .line($0) } + [.part(sum)])
        drawnLines = lines.count
    }

    /// The line of a device.
    private struct Row {
        var text = "Waiting"
        private var phase: UpdatePhase?
        private var offset = 0
        private var total = 0
        private var rate = RateMeter()
        private var isLinkDown = false

        init(text: String = "Waiting") { self.text = text }

        var isActive: Bool { phase != nil }
        var isEnded: Bool { phase == nil && text != "Waiting" }

        mutating func note(_ progress: UpdateProgress, at time: Duration) {
            switch progress {
            case .phase(let phase): (self.phase, isLinkDown) = (phase, false)
            case .transferred(let offset, let total, _):
                rate.add(offset: offset, at: time)
                (self.offset, self.total, isLinkDown) = (offset, total, false)
            case .resumed(let offset, let total):
                rate.add(offset: offset, at: time, isContinuous: false)
                (self.offset, self.total) = (offset, total)
            case .linkLost: (isLinkDown, rate) = (true, RateMeter())
            case .reconnected: isLinkDown = false
            default: break
            }
        }

        func line(_ terminal: TerminalCapabilities) -> TerminalLine {
            guard let phase else { return TerminalLine(text, .dim) }
            let words = isLinkDown && phase != .restart ? "Reconnecting" : ProgressText.line(for: phase)
            guard phase == .transfer, total > 0 else { return TerminalLine("\(words) \(terminal.ellipsis)", .dim) }
            let part = Double(offset) / Double(total)
            let speed = isLinkDown ? "reconnecting" : rate.bytesPerSecond.map(Figures.rate) ?? ""
            return terminal.bar(part, length: 20) + TerminalLine(" \(Int(part * 100)) % \(speed)")
        }
    }
}

extension Array where Element: Hashable {
    /// Returns the elements without repetitions, in the order of their first occurrence.
    fileprivate func uniqued() -> [Element] {
        var known: Set<Element> = []
        return filter { known.insert($0).inserted }
    }
}

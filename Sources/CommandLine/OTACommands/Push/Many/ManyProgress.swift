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

    /// Shows that the session of a device starts later.
    func setWaiting(_ index: Int) { set(Row(), of: index) }

    /// Shows the outcome of a device that was updated. The log of a failed push then does not need its lines.
    func setUpdated(_ outcome: String, of index: Int) {
        consoles[index].removeRecentLog()
        set(Row(end: .success(outcome)), of: index)
    }

    private func set(_ row: Row, of index: Int) {
        rows[index] = row
        draw()
    }

    /// Shows at once that the push to a device failed. After a signal, all running pushes end, so their failures are not news.
    func setFailed(_ failure: Failure, of index: Int) {
        if failure.exit != .interrupted {
            erase()
            consoles[index].reportDevice(failure)
        }
        set(Row(end: .failure(failure)), of: index)
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
        let names = Self.names(of: devices, max(12, columns / 3))
        // The lines must fit on the terminal, because scrolled lines cannot be redrawn.
        let lines = shown(max(1, height - 2)).map { index in
            (names[index] + "  " + rows[index].line(console.terminal)).clipped(to: columns - 1)
        }
        let (ended, failed) = (rows.count { $0.end != nil }, rows.count { $0.failure != nil })
        let failures = failed > 0 ? ", \(failed) failed" : ""
        let sum = TerminalLine("\(ended) of \(devices.count) devices ended\(failures)", .dim)
            .clipped(to: columns - 1)
        console.write([.eraseLines(drawnLines)] + lines.map { .line($0) } + [.part(sum)])
        drawnLines = lines.count
    }

    /// The devices that have a line if not all of them fit: the failed ones in at most half of the lines, then those whose update runs,
    /// then as many others as fit.
    private func shown(_ room: Int) -> [Int] {
        guard devices.count > room else { return Array(devices.indices) }
        let failed = devices.indices.filter { rows[$0].failure != nil }
        let active = devices.indices.filter { rows[$0].isActive }
        return (failed.suffix(room / 2) + active + failed + devices.indices).uniqued().prefix(room).sorted()
    }

    /// Returns the names of the devices, all with the same width.
    ///
    /// The middle of a long name is omitted. If several long names have the same beginning, the end has all characters by which they differ,
    /// if the width permits: paths such as `/dev/serial/by-id/…` differ only near their end.
    private static func names(of devices: [String], _ longest: Int) -> [TerminalLine] {
        let names = devices.map { TerminalLine($0) }
        let width = min(names.map(\.columns).max() ?? 0, longest)
        let long = zip(names, devices).filter { $0.0.columns > width }.map(\.1)
        let similar = Dictionary(grouping: long) { $0.prefix(width / 2) }
        let common = similar.mapValues { group in
            group.dropFirst().reduce(group[0].count) { length, other in
                zip(group[0].prefix(length), other).prefix { $0 == $1 }.count
            }
        }
        return zip(names, devices).map { name, device in
            let end = max((width - 1) / 2, device.count - (common[device.prefix(width / 2)] ?? 0))
            return name.shortened(to: width, keeping: end).padded(to: width)
        }
    }

    /// The line of a device.
    private struct Row {
        /// The result of the push to the device, as text or failure; nil if the push has not ended.
        private(set) var end: Result<String, Failure>?
        private var phase: UpdatePhase?
        private var offset = 0
        private var total = 0
        private var rate = RateMeter()
        private var isLinkDown = false

        init(end: Result<String, Failure>? = nil) { self.end = end }

        var isActive: Bool { phase != nil }
        var failure: Failure? { if case .failure(let failure)? = end { failure } else { nil } }

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
            if let failure { return TerminalLine(failure.short, .red) }
            guard let phase else { return TerminalLine((try? end?.get()) ?? "Waiting", .dim) }
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

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

/// Reports progress as events, one JSON object on each line (docs/command-line.md, `--progress json`).
struct ProgressEvents: ProgressRenderer {
    let write: @Sendable (ProgressEvent) -> Void
    private var phase = UpdatePhase.connect
    private var rate = RateMeter()
    private var throttle = Throttle()

    init(write: @escaping @Sendable (ProgressEvent) -> Void) { self.write = write }

    mutating func show(_ progress: UpdateProgress, at time: Duration) {
        var event = ProgressEvent(.note)
        event.seconds = Figures.rounded(time.seconds)
        switch progress {
        case .phase(let phase):
            self.phase = phase
            event.event = .phase
            event.phase = phase.rawValue
        case .transferred(let offset, let total):
            rate.add(offset: offset, at: time)
            guard throttle.isDue() || offset == total else { return }
            event.event = .progress
            event.phase = phase.rawValue
            event.offset = offset
            event.total = total
            event.bytesPerSecond = rate.bytesPerSecond.map(Figures.rounded)
            event.etaSeconds = rate.secondsLeft(to: total).map(Figures.rounded)
        case .linkLost(let error):
            event.event = .linkLost
            event.message = error.detail
        case .reconnected: event.event = .reconnected
        case .resumed(let offset, let total):
            rate.add(offset: offset, at: time, isContinuous: false)
            event.event = .resumed
            event.offset = offset
            event.total = total
        case .discarded(let offset):
            event.message = ProgressText.line(for: progress)
            event.offset = offset
        case .gap(let offset):
            event.event = .gap
            event.offset = offset
        case .deviceReset(let offset):
            event.event = .deviceReset
            event.offset = offset
        case .confirmed(let version):
            event.event = .confirmed
            event.version = version
        case .note(let text): event.message = text
        }
        write(event)
    }
}

/// An event: one line of `--progress json`. A member without a value is absent.
struct ProgressEvent: Encodable {
    enum Kind: String, Encodable {
        case progress, phase, reconnected, resumed, gap, confirmed, note, log, error
        case linkLost = "link-lost"
        case deviceReset = "device-reset"
    }
    var event: Kind
    var phase: String?
    /// In image bytes.
    var offset, total: Int?
    var bytesPerSecond, etaSeconds: Double?
    /// The time since the session started, in seconds.
    var seconds: Double?
    var version: String?
    var message: String?
    var level: String?
    // For an error only.
    var code, hint: String?
    var exit: Int32?

    init(_ event: Kind, message: String? = nil) {
        self.event = event
        self.message = message
    }

    init(_ failure: Failure) {
        self.init(.error, message: failure.message)
        code = failure.code
        hint = failure.hint
        exit = failure.exit.rawValue
    }
}

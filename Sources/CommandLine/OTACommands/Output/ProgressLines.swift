import OTAUpdate

/// Reports progress as lines for files and logs: one line for each phase, each tenth of the image and each event.
struct ProgressLines: ProgressRenderer {
    /// The address that the user gave, without the parameters of a virtual device. Each line begins with this address, because a log can
    /// contain the lines of several devices. The prefix is empty if the command has no device.
    private let prefix: String
    let write: @Sendable (TerminalLine) -> Void
    private var rate = RateMeter()
    private var tenth = 0
    /// The image size in bytes, from the acknowledgement of the last byte until the line for 100 % is written. Nil at all other times. The
    /// line is written after `UpdateProgress.uploaded`, because this event contains the rate of the whole transfer.
    private var completed: Int?

    init(device: String?, write: @escaping @Sendable (TerminalLine) -> Void) {
        let address = device.map { String($0.prefix { $0 != "?" }) } ?? ""
        prefix = address.isEmpty || address.hasSuffix(":") ? address : "\(address):"
        self.write = write
    }

    mutating func show(_ progress: UpdateProgress, at time: Duration) {
        switch progress {
        case .phase(let phase): writeLine(ProgressText.line(for: phase))
        case .transferred(let offset, let total, _): advance(to: offset, of: total, at: time)
        case .resumed(let offset, let total):
            rate.add(offset: offset, at: time, isContinuous: false)
            tenth = Self.tenth(offset, total)
            completed = nil
            fallthrough
        case .connectionFailed, .linkLost, .reconnected, .discarded, .nothingToResume, .gap, .deviceReset, .confirmed,
            .downgrade, .encoding, .plain, .note:
            if case .linkLost = progress { rate = RateMeter() }
            if let line = ProgressText.line(for: progress) { writeLine(line) }
        case .uploaded(let transfer):
            guard let total = completed.take() else { return }
            let speed = transfer.bytesPerSecond.map { ", \(Figures.rate($0))" } ?? ""
            writeLine("100 %, \(total) of \(total) bytes\(speed)")
        }
    }

    private func writeLine(_ text: String) { write(TerminalLine(prefix.isEmpty ? text : "\(prefix) \(text)")) }

    private mutating func advance(to offset: Int, of total: Int, at time: Duration) {
        rate.add(offset: offset, at: time)
        let reached = Self.tenth(offset, total)
        guard reached > tenth else { return }
        tenth = reached
        guard offset < total else { return completed = total }
        // The line contains the exact percentage, because the offset is rarely at a tenth exactly: one chunk of an encoded image can
        // contain up to 16 KiB of the image.
        var line = "\(offset * 100 / total) %, \(offset) of \(total) bytes"
        if let speed = rate.bytesPerSecond { line += ", \(Figures.rate(speed))" }
        if let left = rate.secondsLeft(to: total) { line += ", \(Figures.remaining(left))" }
        writeLine(line)
    }

    private static func tenth(_ offset: Int, _ total: Int) -> Int { total > 0 ? offset * 10 / total : 0 }
}

/// Reports progress as JSON events, one object on each line (docs/command-line.md, `--progress json`).
struct ProgressEvents: ProgressRenderer {
    let write: @Sendable (ProgressEvent) -> Void
    private var phase = UpdatePhase.connect
    private var rate = RateMeter()
    private var throttle = Throttle()
    /// The event for the last byte of an image, from the acknowledgement of this byte until the event is written. Nil at all other times.
    /// It is written after `UpdateProgress.uploaded`, because `uploaded` contains the rate of the whole transfer.
    private var completion: ProgressEvent?

    init(write: @escaping @Sendable (ProgressEvent) -> Void) { self.write = write }

    mutating func show(_ progress: UpdateProgress, at time: Duration) {
        var event = ProgressEvent(.note)
        event.seconds = Figures.rounded(time.seconds)
        switch progress {
        case .phase(let phase):
            self.phase = phase
            event.event = .phase
            event.phase = phase.rawValue
        case .transferred(let offset, let total, let sent):
            rate.add(offset: offset, at: time)
            completion = nil
            guard throttle.isDue() || offset == total else { return }
            event.event = .progress
            event.phase = phase.rawValue
            event.offset = offset
            event.total = total
            event.sent = sent
            event.bytesPerSecond = rate.bytesPerSecond.map(Figures.rounded)
            event.etaSeconds = rate.secondsLeft(to: total).map(Figures.rounded)
            guard offset < total else { return completion = event }
        case .uploaded(let transfer):
            guard let completed = completion.take() else { return }
            event = completed
            event.bytesPerSecond = transfer.bytesPerSecond.map(Figures.rounded) ?? completed.bytesPerSecond
            event.etaSeconds = 0
        case .connectionFailed(let error):
            event.event = .connectionFailed
            event.message = error.detail
        case .linkLost(let error):
            rate = RateMeter()
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
        case .nothingToResume, .downgrade:
            event.event = .warning
            event.message = ProgressText.warning(for: progress)
        case .encoding, .plain: event.message = ProgressText.line(for: progress)
        case .note(let text): event.message = text
        }
        write(event)
    }
}

/// A JSON event, one line of `--progress json`. Members without a value are absent.
struct ProgressEvent: Encodable {
    enum Kind: String, Encodable {
        case progress, phase, reconnected, resumed, gap, confirmed, note, warning, log, error
        case connectionFailed = "connection-failed"
        case linkLost = "link-lost"
        case deviceReset = "device-reset"
    }
    var event: Kind
    /// The device of the event; nil if the event is not about one device.
    var device: GivenDevice?
    var phase: String?
    /// The offset and the image size, in bytes.
    var offset, total: Int?
    /// The number of bytes that this run has sent over the link.
    var sent: Int?
    var bytesPerSecond, etaSeconds: Double?
    /// The time since the session started, in seconds.
    var seconds: Double?
    var version: String?
    var message: String?
    var level: String?
    /// The action that the user can take after a warning or an error.
    var hint: String?
    // Only error events contain `code` and `exit`.
    var code: String?
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

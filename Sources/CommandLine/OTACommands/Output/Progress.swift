import OTAFirmware
import OTAUpdate

/// Shows the progress of a session. Only one task at a time calls a renderer, in the order of the events.
protocol ProgressRenderer {
    /// Shows an event.
    ///
    /// - Parameter time: the time since the session started. The clock of the session can be virtual.
    mutating func show(_ progress: UpdateProgress, at time: Duration)
    /// Erases an incomplete line on the terminal after the end of the session.
    mutating func finish()
}

extension ProgressRenderer {
    mutating func finish() {}
}

/// Limits the output to 10 updates in a second, which is enough for a reader.
struct Throttle {
    private static let interval = Duration.milliseconds(100)
    private var last: ContinuousClock.Instant?

    /// Returns true if there was no update in the last 100 ms. In this case, also starts the next interval.
    mutating func isDue() -> Bool {
        let now = ContinuousClock.now
        if let last, last.duration(to: now) < Self.interval { return false }
        last = now
        return true
    }
}

/// Passes the progress events of a session to the log and the renderer.
///
/// `@unchecked Sendable` is safe, because only one task at a time uses a reporter.
final class ProgressReporter: @unchecked Sendable {
    private var renderer: (any ProgressRenderer)?
    private let console: Console

    init(_ console: Console) {
        renderer = console.renderer
        self.console = console
    }

    func report(_ progress: UpdateProgress, at time: Duration) {
        console.phases.record(progress, at: time)
        if let text = ProgressText.warning(for: progress) { console.warnings.add(text) }
        console.debug("\(Figures.decimal(time.seconds, places: 3)) s: \(ProgressText.logLine(for: progress))")
        guard renderer != nil else {
            // Without a renderer (`--quiet`, `--progress none`) the user still needs the warnings, and with `--progress none` the notes.
            if let text = ProgressText.warning(for: progress) { console.warn(text) }
            if case .note(let text) = progress { console.note(text) }
            return
        }
        renderer?.show(progress, at: time)
    }

    func finish() { renderer?.finish() }
}

/// The text of progress events.
enum ProgressText {
    static func line(for phase: UpdatePhase) -> String {
        switch phase {
        case .connect: "Connecting"
        case .preflight: "Checking the device"
        case .envelope: "Sending manifest and signatures"
        case .transfer: "Sending the image"
        case .verify: "Device verifies the image"
        case .apply: "Marking the image for boot"
        case .restart: "Device restarts"
        case .confirm: "Confirming"
        }
    }

    /// Returns the text of an event in the log of `--verbose`. The log contains all events, also phases and transferred bytes.
    static func logLine(for progress: UpdateProgress) -> String {
        switch progress {
        case .phase(let phase): "phase \(phase.rawValue)"
        case .uploaded(let transfer): "uploaded, \(transfer.bytesPerSecond.map(Figures.rate) ?? "rate unknown")"
        case .transferred(let offset, let total, _): "\(offset) of \(total) bytes acknowledged"
        default: line(for: progress) ?? "\(progress)"
        }
    }

    /// Returns the text of an event that is a warning; nil for other events. `--quiet` does not suppress warnings.
    static func warning(for progress: UpdateProgress) -> String? {
        switch progress {
        case .nothingToResume:
            "nothing to resume: the device has no partial upload of this file; the transfer starts at 0"
        case .downgrade(let version, let running):
            "version \(version) is lower than \(running), the running version"
        default: nil
        }
    }

    private static func sentence(for reason: TransferReport.PlainReason) -> String {
        switch reason {
        case .asked: "no encoding is allowed"
        case .notOffered: "the device does not accept encoded images"
        case .notSmaller: "the encoded image is not smaller"
        case .tooLarge: "the image is too large for the encoder"
        case .noProgress: "the encoded image made no progress"
        case .notDecoded: "the encoded image cannot be decoded"
        }
    }

    /// Returns the text of an event for the user; nil for phases, transferred bytes and a completed upload, which the renderers show in
    /// another way.
    static func line(for progress: UpdateProgress) -> String? {
        switch progress {
        case .phase, .transferred, .uploaded: nil
        case .connectionFailed(let error): "Connection failed: \(error.detail); trying again"
        case .linkLost(let error): "Link lost: \(error.detail); reconnecting"
        case .reconnected: "Reconnected"
        case .resumed(let offset, let total): "Resuming at byte \(offset) of \(total)"
        case .discarded(let offset):
            "The device discards a partial upload of \(Figures.bytes(offset)); the transfer starts at 0"
        case .nothingToResume, .downgrade: warning(for: progress).map { "Warning: \($0)" }
        case .encoding(let base, let bytes, let plainBytes):
            "\(base.map { "Delta from \($0.version?.text ?? $0.name)" } ?? "Compressed"): "
                + "\(Figures.bytes(bytes)) in place of \(Figures.bytes(plainBytes))"
        case .plain(let reason): "The image is sent plain: \(sentence(for: reason))"
        case .gap(let offset): "Chunks were lost; resuming at byte \(offset)"
        case .deviceReset(let offset):
            "The device has lost received bytes, for example by a restart; resuming at byte \(offset)"
        case .confirmed(let version): "Version \(version) is confirmed"
        case .note(let text): text.prefix(1).uppercased() + text.dropFirst()
        }
    }
}

/// Measures the rate of a transfer over the last 3 seconds and estimates the remaining time.
struct RateMeter {
    private static let window = Duration.seconds(3)
    private var samples: [(time: Duration, offset: Int)] = []

    /// Adds a sample.
    ///
    /// - Parameters:
    ///   - offset: the offset of the transfer, in bytes.
    ///   - time: the time since the session started.
    ///   - isContinuous: false if the transfer resumes at `offset` after a break. Earlier samples are then discarded.
    mutating func add(offset: Int, at time: Duration, isContinuous: Bool = true) {
        if !isContinuous || offset < samples.last?.offset ?? 0 { samples = [] }
        samples.append((time, offset))
        // One sample that is at least 3 seconds old remains. Without it, a slow transfer would sometimes have only one sample, and no rate.
        while samples.count > 2, time - samples[1].time >= Self.window { samples.removeFirst() }
    }

    /// The rate in bytes per second; nil if there are not yet two samples with different times.
    var bytesPerSecond: Double? {
        guard let first = samples.first, let last = samples.last, last.time > first.time else { return nil }
        return Double(last.offset - first.offset) / (last.time - first.time).seconds
    }

    /// The estimated time until the transfer reaches `total` bytes, in seconds; nil if the rate is unknown or 0.
    func secondsLeft(to total: Int) -> Double? {
        guard let rate = bytesPerSecond, rate > 0, let last = samples.last else { return nil }
        return Double(total - last.offset) / rate
    }
}

import OTAUpdate

/// Shows the progress of a session. One task at a time calls it, in the order of the events.
protocol ProgressRenderer {
    /// Shows an event.
    ///
    /// - Parameter time: the time since the session started, from its clock, which can be virtual.
    mutating func show(_ progress: UpdateProgress, at time: Duration)
    /// Erases an incomplete line after the end of the session.
    mutating func finish()
}

extension ProgressRenderer {
    mutating func finish() {}
}

/// Limits the output to 10 updates in a second, which is enough for a person.
struct Throttle {
    private static let interval = Duration.milliseconds(100)
    private var last: ContinuousClock.Instant?

    /// Returns true if the last update was at least 100 ms ago, and starts the next interval.
    mutating func isDue() -> Bool {
        let now = ContinuousClock.now
        if let last, last.duration(to: now) < Self.interval { return false }
        last = now
        return true
    }
}

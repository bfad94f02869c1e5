import OTAUpdate

/// Shows what a session tells those who watch. Told in order, by one task at a time.
protocol ProgressRenderer {
    /// - Parameter time: since the session was started; virtual where its clock is.
    mutating func show(_ progress: UpdateProgress, at time: Duration)
    /// The session is over: nothing half-drawn stays.
    mutating func finish()
}

extension ProgressRenderer {
    mutating func finish() {}
}

/// A device never updates so fast that anybody could read more.
struct Throttle {
    private static let interval = Duration.milliseconds(100)
    private var last: ContinuousClock.Instant?

    /// Whether it is time to show something again.
    mutating func isDue() -> Bool {
        let now = ContinuousClock.now
        if let last, last.duration(to: now) < Self.interval { return false }
        last = now
        return true
    }
}

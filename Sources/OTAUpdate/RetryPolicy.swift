/// Decides when to reconnect after a lost or failed link, and when to stop.
///
/// It allows three attempts in a row without progress. Progress resets the count. The waits double, with
/// random jitter, so that two hosts do not retry at the same times.
public struct RetryPolicy: Sendable, Equatable {
    /// The shortest wait. In BlueZ, a connection immediately after a disconnection fails.
    public static let shortestWait = Duration.milliseconds(500)
    public static let longestWait = Duration.seconds(8)
    public static let attempts = 3

    private var failures = 0
    private var extensions = 0

    public init() {}

    /// Counts a failed attempt.
    ///
    /// - Returns: the wait before the next attempt; nil: no attempt is left.
    public mutating func failed(random: inout some RandomNumberGenerator) -> Duration? {
        failures += 1
        return failures > Self.attempts ? nil : wait(random: &random)
    }

    /// Counts a failed attempt of a caller that has a time limit instead of a limit of attempts.
    ///
    /// - Returns: the wait before the next attempt.
    public mutating func failedWithinTime(random: inout some RandomNumberGenerator) -> Duration {
        failures = min(failures + 1, Self.attempts)
        return wait(random: &random)
    }

    /// Resets the count after progress.
    public mutating func progressed() { failures = 0 }

    /// Extends the search for a restarting device after a lost link, because the loss may be another restart.
    ///
    /// - Parameters:
    ///   - end: the end of the search so far.
    ///   - restart: the longest duration of a restart.
    /// - Returns: the end of the search: the later of `end` and `now` + `restart`. At most three losses extend the search.
    public mutating func lost(at now: Duration, lookingUntil end: Duration, restart: Duration) -> Duration {
        guard now + restart > end, extensions < Self.attempts else { return end }
        extensions += 1
        return now + restart
    }

    private func wait(random: inout some RandomNumberGenerator) -> Duration {
        let doubled = min(Self.shortestWait * (1 << max(0, failures - 1)), Self.longestWait)
        return doubled * Double.random(in: 1...1.25, using: &random)
    }
}

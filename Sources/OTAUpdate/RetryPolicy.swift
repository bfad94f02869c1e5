/// When to try again after a link broke or did not come, and when to give up: three attempts in a row without progress
/// end it, progress resets the count. Waits double and carry jitter, so that two hosts do not stay in step.
public struct RetryPolicy: Sendable, Equatable {
    /// No reconnection sooner: BlueZ fails one that follows a disconnection at once.
    public static let shortestWait = Duration.milliseconds(500)
    public static let longestWait = Duration.seconds(8)
    public static let attempts = 3

    private var failures = 0
    private var extensions = 0

    public init() {}

    /// An attempt has failed.
    ///
    /// - Returns: how long to wait before the next one; nil: all are used up.
    public mutating func failed(random: inout some RandomNumberGenerator) -> Duration? {
        failures += 1
        return failures > Self.attempts ? nil : wait(random: &random)
    }

    /// An attempt has failed where there is a better reason to stop than their number.
    ///
    /// - Returns: how long to wait before the next one.
    public mutating func failedWithinTime(random: inout some RandomNumberGenerator) -> Duration {
        failures = min(failures + 1, Self.attempts)
        return wait(random: &random)
    }

    public mutating func progressed() { failures = 0 }

    /// A link was lost while a session looks for a device that restarts. The loss may be one more restart.
    ///
    /// - Parameters:
    ///   - end: when the session would stop looking.
    ///   - restart: how long a restart of the device takes at most.
    /// - Returns: when to stop looking: `end`, or `restart` from now where that is later. Three losses extend it at most.
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

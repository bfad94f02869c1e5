/// Decides when to reconnect after a lost or failed link, and when to stop.
///
/// After a failure, the policy allows three more attempts. Progress of the session resets the count of failures.
///
/// Each wait is twice as long as the previous wait: 0.5 s, 1 s, 2 s. From the third failure in a row on, each wait is 2 s. A random jitter
/// of up to 25 % is added to each wait, so that two hosts do not always retry at the same time.
public struct RetryPolicy: Sendable, Equatable {
    /// The shortest wait, without the jitter. It is not zero, because BlueZ fails to connect immediately after a disconnection.
    public static let shortestWait = Duration.milliseconds(500)
    /// The upper limit of a wait, without the jitter. With three attempts, no wait reaches this limit.
    public static let longestWait = Duration.seconds(8)
    /// The usual maximum number of attempts in a row without progress, after the first failure.
    public static let attempts = 3

    private let attempts: Int
    private var failures = 0
    private var extensions = 0

    public init(attempts: Int = Self.attempts) { self.attempts = attempts }

    /// Counts a failed attempt.
    ///
    /// - Returns: the wait before the next attempt; nil: no attempt is left.
    public mutating func failed(random: inout some RandomNumberGenerator) -> Duration? {
        failures += 1
        return failures > attempts ? nil : wait(random: &random)
    }

    /// Counts a failed attempt, and always allows another attempt. Use this method if a time limit ends the attempts, so that their number
    /// need not be limited.
    ///
    /// - Returns: the wait before the next attempt.
    public mutating func failedWithinTime(random: inout some RandomNumberGenerator) -> Duration {
        failures = min(failures + 1, Self.attempts)
        return wait(random: &random)
    }

    /// Resets the count of failed attempts after progress.
    public mutating func progressed() { failures = 0 }

    /// Extends the search for a restarting device after the loss of a link, because the device may have restarted once more.
    ///
    /// - Parameters:
    ///   - now: the time of the loss.
    ///   - end: the current end of the search.
    ///   - restart: the maximum duration of one restart.
    /// - Returns: the new end of the search: the later of `end` and `now` + `restart`. After three extensions, always `end`.
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

/// Limits the sent bytes, the rewinds and the time of a push.
///
/// A device chooses the offset at which an upload continues, and the time of its answers. So without limits, a hostile or broken device
/// could keep a push running for ever. Only bytes after the highest offset so far count as progress. The limits are far above the values
/// that were measured with correct devices (the gauntlet, docs/reliability.md).
package struct ProgressBudget: Sendable, Equatable {
    /// The factor in the limit of sent bytes. The limit is `copies` × image size + `spareBytes`.
    package static let copies = 16
    /// The constant in the limit of sent bytes (see `copies`). Small images on bad links need this constant, because the host sends a
    /// whole window again after each lost chunk.
    package static let spareBytes = 8 << 20
    /// The count of rewinds at which the push ends, and also the count of losses at which it ends.
    ///
    /// - A *loss*: the device continues below the acknowledged offset, so it has lost received bytes. Only progress resets this count.
    /// - A *rewind*: the host sends bytes again that the device has not acknowledged. An acknowledged byte resets this count.
    ///
    /// There are two counts because a correct device can restart near the end of a push. The host then sends all bytes again without
    /// progress. On a link that loses a tenth of the packets, this causes more than 64 rewinds. The acknowledged bytes between them reset
    /// the count, so the push continues.
    package static let mostRewinds = 64
    /// The constant in the time limit of the transfer. The limit is `spareTime` + progress / `slowestRate`.
    package static let spareTime = Duration.seconds(20 * 60)
    /// The lowest accepted rate, in bytes per second.
    package static let slowestRate = 32
    /// The maximum time that the budget counts between two events. A session never waits longer than this time. So if more time has passed,
    /// the computer was suspended.
    package static let longestStep = Duration.seconds(120)

    /// The size of all images, in bytes.
    private let imageBytes: Int
    private var sentBytes = 0
    private var progress = 0
    private var rewinds = 0
    private var losses = 0
    private var elapsed = Duration.zero
    private var last = Duration.zero

    /// Creates the budget of a push.
    ///
    /// - Parameter imageBytes: the size of all images to send, in bytes.
    package init(imageBytes: Int) { self.imageBytes = imageBytes }

    /// Returns the limit of sent bytes for a push of `imageBytes`.
    package static func mostBytes(ofImage imageBytes: Int) -> Int { copies * imageBytes + spareBytes }

    /// Returns the time limit for the transfer of `imageBytes`.
    package static func longestTime(ofImage imageBytes: Int) -> Duration {
        spareTime + .seconds(imageBytes / slowestRate)
    }

    /// Counts the time since the previous call.
    ///
    /// - Parameter counts: false during a wait with its own time limit, such as the wait for a restart.
    package mutating func pass(to now: Duration, counts: Bool) {
        if counts { elapsed += min(max(.zero, now - last), Self.longestStep) }
        last = now
    }

    /// Counts sent bytes.
    package mutating func sent(_ bytes: Int) { sentBytes += bytes }

    /// Counts `bytes` new bytes after the highest offset as progress, and resets the counts of rewinds and losses.
    package mutating func advanced(by bytes: Int) {
        progress += bytes
        (rewinds, losses) = (0, 0)
    }

    /// Resets the count of rewinds, because the device acknowledged an offset above the previously acknowledged offset.
    ///
    /// The new offset is not always progress. After a loss, it can still be below the highest acknowledged offset of the push.
    package mutating func acknowledged() { rewinds = 0 }

    /// Counts a request for bytes that were sent before.
    ///
    /// - Parameter losesBytes: true if the device continues at an offset below the acknowledged offset.
    package mutating func rewound(losesBytes: Bool) {
        if losesBytes { losses += 1 } else { rewinds += 1 }
    }

    /// The error that ends the push; nil: no limit is reached.
    package var exhausted: UpdateError? {
        if rewinds >= Self.mostRewinds {
            return UpdateError(
                .noProgress,
                "the device requested the same bytes \(rewinds) times; it reached \(progress) of \(imageBytes) bytes")
        }
        if losses >= Self.mostRewinds {
            return UpdateError(
                .noProgress,
                "the device lost received bytes \(losses) times; it reached \(progress) of \(imageBytes) bytes")
        }
        if sentBytes > Self.mostBytes(ofImage: imageBytes) {
            return UpdateError(
                .noProgress, "\(sentBytes) bytes were sent, and the device has only \(progress) of \(imageBytes) bytes")
        }
        if elapsed > Self.longestTime(ofImage: progress) {
            let minutes = elapsed.components.seconds / 60
            return UpdateError(
                .noProgress, "after \(minutes) minutes the device has only \(progress) of \(imageBytes) bytes")
        }
        return nil
    }
}

/// The pseudorandom generator SplitMix64 (Steele, Lea and Flood, 2014). The same seed gives the same numbers in every process.
public struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    public init(seed: UInt64) { state = seed }

    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// The limits of a push, relative to its progress: sent bytes, rewinds and time.
///
/// A device chooses the offset at which an upload continues, and when it answers. So without limits, a hostile or broken device could
/// keep a push running for ever. Only bytes beyond the furthest offset so far are progress. The limits are far above the highest values
/// of correct devices in the gauntlet (docs/reliability.md).
package struct ProgressBudget: Sendable, Equatable {
    /// The limit of sent bytes, as a multiple of the image size. `spareBytes` are added.
    package static let copies = 16
    /// The added limit of sent bytes. It is for small images on bad links, where each lost chunk costs a large window.
    package static let spareBytes = 8 << 20
    /// The limit of rewinds in a row. A rewind is a request for bytes that were sent before; an acknowledged byte resets the count.
    ///
    /// It is also the limit of losses of acknowledged bytes between two furthest offsets. Rewinds and losses are counted separately. The
    /// reason is a restart near the end: a link that loses a tenth of the packets then needs more than 64 rewinds to reach that offset.
    package static let mostRewinds = 64
    /// The time limit of the transfer. One second is added for each `slowestRate` bytes of progress.
    package static let spareTime = Duration.seconds(20 * 60)
    /// The lowest accepted rate, in bytes per second.
    package static let slowestRate = 32
    /// The longest time that is counted between two events. A session never waits so long, so a longer time means that the host slept.
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
    /// - Parameter counts: false while the session waits for an event with its own time limit, such as a restart.
    package mutating func pass(to now: Duration, counts: Bool) {
        if counts { elapsed += min(max(.zero, now - last), Self.longestStep) }
        last = now
    }

    /// Counts sent bytes.
    package mutating func sent(_ bytes: Int) { sentBytes += bytes }

    /// Counts bytes beyond the furthest offset so far.
    package mutating func advanced(by bytes: Int) {
        progress += bytes
        (rewinds, losses) = (0, 0)
    }

    /// Counts an acknowledged offset that is higher than the previous one, but not always the furthest of the push.
    package mutating func acknowledged() { rewinds = 0 }

    /// Counts a request for bytes that were sent before.
    ///
    /// - Parameter losesBytes: true if the device continues below the offset that it acknowledged before.
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

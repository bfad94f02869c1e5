/// Limits what a push may cost in bytes, steps back and time, measured by its progress.
///
/// A device chooses the offset at which an upload continues, and when it answers. Without a limit a lying or broken device can keep a
/// push busy for ever. Only bytes beyond the furthest offset so far are progress. The limits are far above the worst honest worlds of
/// the gauntlet (docs/reliability.md).
package struct ProgressBudget: Sendable, Equatable {
    /// A push may send so many times the image, and `spareBytes` more.
    package static let copies = 16
    /// In bytes. For small images on bad links: where each lost chunk costs a wide window.
    package static let spareBytes = 8 << 20
    /// Times in a row that the device may ask for bytes again and acknowledge no byte in between.
    ///
    /// Also the times that it may lose acknowledged bytes between two furthest offsets. The two are counted separately: after a restart near
    /// the end, a link that loses a tenth of the packets needs more than 64 rewinds until the transfer reaches that offset again.
    package static let mostRewinds = 64
    /// The transfer may take so long, and one second more for each `slowestRate` bytes of progress.
    package static let spareTime = Duration.seconds(20 * 60)
    /// In bytes per second.
    package static let slowestRate = 32
    /// The most time that is counted between two events. A session waits for less, so more is a host that was asleep.
    package static let longestStep = Duration.seconds(120)

    /// Of all images, in bytes.
    private let imageBytes: Int
    private var sentBytes = 0
    private var progress = 0
    private var rewinds = 0
    private var losses = 0
    private var elapsed = Duration.zero
    private var last = Duration.zero

    /// - Parameter imageBytes: the size of all images that are to be sent, in bytes.
    package init(imageBytes: Int) { self.imageBytes = imageBytes }

    /// The most bytes that a push of so many image bytes sends.
    package static func mostBytes(ofImage imageBytes: Int) -> Int { copies * imageBytes + spareBytes }

    /// The longest time that the transfer of so many image bytes takes.
    package static func longestTime(ofImage imageBytes: Int) -> Duration {
        spareTime + .seconds(imageBytes / slowestRate)
    }

    /// Time has passed.
    ///
    /// - Parameter counts: false where the session waits for something that has a limit of its own, such as a restart.
    package mutating func pass(to now: Duration, counts: Bool) {
        if counts { elapsed += min(max(.zero, now - last), Self.longestStep) }
        last = now
    }

    package mutating func sent(_ bytes: Int) { sentBytes += bytes }

    /// Counts bytes beyond the furthest offset so far.
    package mutating func advanced(by bytes: Int) {
        progress += bytes
        (rewinds, losses) = (0, 0)
    }

    /// Counts an acknowledged offset that is higher than the one before it, though perhaps not the furthest of the push.
    package mutating func acknowledged() { rewinds = 0 }

    /// Counts a request for bytes that were sent before.
    ///
    /// - Parameter losesBytes: the device continues below the offset that it acknowledged before.
    package mutating func rewound(losesBytes: Bool) {
        if losesBytes { losses += 1 } else { rewinds += 1 }
    }

    /// The error that ends the push; nil: it may go on.
    package var exhausted: UpdateError? {
        if rewinds >= Self.mostRewinds {
            return UpdateError(
                .noProgress,
                "the device asked \(rewinds) times for the same bytes; it reached \(progress) of \(imageBytes) bytes")
        }
        if losses >= Self.mostRewinds {
            return UpdateError(
                .noProgress,
                "the device lost received bytes \(losses) times; it reached \(progress) of \(imageBytes) bytes")
        }
        if sentBytes > Self.mostBytes(ofImage: imageBytes) {
            return UpdateError(
                .noProgress, "\(sentBytes) bytes were sent, and the device holds \(progress) of \(imageBytes) bytes")
        }
        if elapsed > Self.longestTime(ofImage: progress) {
            let minutes = elapsed.components.seconds / 60
            return UpdateError(
                .noProgress, "after \(minutes) minutes the device holds \(progress) of \(imageBytes) bytes")
        }
        return nil
    }
}

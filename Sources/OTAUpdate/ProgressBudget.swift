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
    /// Times that the device may ask for bytes again, or a link may break, between two furthest offsets.
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

    /// The device holds so many bytes more than ever before.
    package mutating func advanced(by bytes: Int) {
        progress += bytes
        rewinds = 0
    }

    /// The device asked for bytes that were sent before.
    package mutating func rewound() { rewinds += 1 }

    /// The error that ends the push; nil: it may go on.
    package var exhausted: UpdateError? {
        if rewinds >= Self.mostRewinds {
            return UpdateError(
                .noProgress,
                "the device asked \(rewinds) times for bytes that were sent before, and got no further than "
                    + "\(progress) of \(imageBytes) bytes")
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

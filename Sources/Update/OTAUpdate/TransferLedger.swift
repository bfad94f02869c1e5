/// The account of a push, for all links of the session: the offsets in the current image, the statistics and the limits.
package struct TransferLedger: Sendable {
    /// The statistics for the report of the session.
    package var statistics = TransferReport()
    /// The limits of the push.
    package var budget: ProgressBudget
    /// The offset in the current image after the last byte that was passed to the link. When a transfer begins, and after a rewind, it is
    /// the offset at which the transfer continues. For an encoded image, it is an estimate.
    package var sentOffset = 0
    /// The number of bytes of the current image that the device has acknowledged.
    package var acknowledgedOffset = 0
    /// The number of the current image. The GATT OTA profile has only the image 0.
    private var image = 0
    /// The highest acknowledged offset of each image in this session, by image number. Only bytes after this offset count as progress.
    private var furthestOffsets: [Int: Int] = [:]
    /// The time of the first image byte that was passed to the link; nil if no image byte was sent.
    private var firstByteAt: Duration?

    /// - Parameter imageBytes: the size of all images of the push, in bytes.
    package init(imageBytes: Int) { budget = ProgressBudget(imageBytes: imageBytes) }

    /// Begins the account of an image of `bytes` bytes, which is the current image from now on.
    package mutating func open(image: Int = 0, bytes: Int) {
        self.image = image
        (sentOffset, acknowledgedOffset) = (0, 0)
        guard furthestOffsets[image] == nil else { return }
        furthestOffsets[image] = 0
        statistics.imageBytes += bytes
    }

    /// Counts bytes of the image that were passed to the link.
    package mutating func sent(_ bytes: Int, at now: Duration) {
        if firstByteAt == nil { firstByteAt = now }
        statistics.sentBytes += bytes
    }

    /// Counts a gap, after which `resent` bytes of the image are sent again.
    package mutating func gap(resent: Int) {
        statistics.gaps += 1
        statistics.resentBytes += resent
    }

    /// Records the offset that the device has acknowledged. Returns true if the push has progressed.
    package mutating func acknowledged(_ offset: Int) -> Bool {
        if offset > acknowledgedOffset { budget.acknowledged() }
        acknowledgedOffset = offset
        return advanced(to: offset)
    }

    /// Counts the bytes between the highest acknowledged offset and `offset` as progress. Returns true if the push has progressed.
    package mutating func advanced(to offset: Int) -> Bool {
        let furthest = furthestOffsets[image] ?? 0
        guard offset > furthest else { return false }
        furthestOffsets[image] = offset
        budget.advanced(by: offset - furthest)
        return true
    }

    /// Records the duration of the transfer. Returns the statistics; nil if this session sent no image byte.
    package mutating func uploaded(at now: Duration) -> TransferReport? {
        guard let firstByteAt else { return nil }
        statistics.duration = now - firstByteAt
        return statistics
    }
}

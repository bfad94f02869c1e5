/// The number of chunks that may be in flight. It is halved after each gap, and then grows slowly.
///
/// Zephyr's server drops a write without an answer if no buffer is free (`smp_bt.c`). So a gap is the only sign of too many chunks. The
/// size is halved after a gap. It grows by one chunk after each window without a gap: additive increase, multiplicative decrease, as in
/// RFC 5681.
///
/// The window stores the size at which a gap occurred. It tries this size again only after many windows without a gap, and waits twice
/// as long after each further gap. So only a small part of the image is sent again.
package struct SMPWindow: Sendable, Equatable {
    /// The default first size. Two chunks keep most links busy, and a device that reports its buffers can hold two.
    private static let firstSize = 2
    private static let mostDoublings = 8
    private static let shortestPause = Duration.milliseconds(20)
    private static let longestPause = Duration.milliseconds(640)

    /// The largest size, in chunks.
    package let limit: Int
    private let delivery: SMPUpload.Delivery
    /// The number of chunks that may be in flight.
    package private(set) var size: Int
    /// The pause between an answer and the next chunk. It is for a device that drops chunks even at size 1, because the device frees
    /// its buffers only after the answer.
    package private(set) var pause = Duration.zero
    /// The size at which the last gap occurred, at least 2; nil if there was none, or if it was long ago.
    private var overflow: Int?
    /// The number of consecutive gaps at the size `overflow`.
    private var failures = 0
    /// The number of chunks answered without a gap since the last change of the size.
    private var answered = 0

    /// Creates a window.
    ///
    /// - Parameters:
    ///   - limit: The largest size in chunks.
    ///   - size: The first size in chunks; by default 2, or the limit if it is lower.
    ///   - delivery: The way in which the link delivers chunks.
    package init(limit: Int, size: Int? = nil, delivery: SMPUpload.Delivery) {
        self.limit = max(1, limit)
        self.size = min(self.limit, max(1, size ?? Self.firstSize))
        self.delivery = delivery
    }

    /// Records the answer to a chunk without a gap before it.
    package mutating func grow() {
        answered += 1
        if size == overflow, answered >= trial(of: size) { (overflow, failures) = (nil, 0) }
        guard size < limit, answered >= (size + 1 == overflow ? trial(of: size + 1) : size) else { return }
        size += 1
        pause = .zero
        answered = 0
    }

    /// Halves the size after a gap of one or more lost chunks.
    package mutating func shrink() {
        // On a lossy link, the link itself can lose the packet, so a gap does not mean that the buffers are full.
        if size == 1, delivery != .lossy { pause = min(max(Self.shortestPause, pause * 2), Self.longestPause) }
        failures = size == overflow ? min(failures + 1, Self.mostDoublings) : 0
        overflow = max(2, size)
        size = max(1, size / 2)
        answered = 0
    }

    /// Returns how many chunks must be answered without a gap before a size at which a gap occurred is tried again.
    private func trial(of size: Int) -> Int { size * ((delivery == .lossy ? 8 : 100) << failures) }
}

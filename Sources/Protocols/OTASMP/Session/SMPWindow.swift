/// The window of an upload: the number of chunks that may be in flight.
///
/// A gap is a loss of one or more chunks. Zephyr's server drops a chunk without an answer if no buffer is free (`smp_bt.c`). So only a gap
/// shows that too many chunks were in flight. A gap halves the window. After each full window of chunks without a gap, the window grows
/// by one chunk. This is the additive increase and multiplicative decrease of RFC 5681.
///
/// The window returns to the size at which the last gap occurred only after many chunks without a gap. If a gap occurs at this size again,
/// the next return requires twice as many chunks. So gaps are rare, and the host sends only a small part of the image again.
package struct SMPWindow: Sendable, Equatable {
    /// The default first size in chunks. Two chunks in flight keep most links busy.
    private static let firstSize = 2
    /// The maximum of `failures`. `failures` is the number of doublings in `trial(of:)`.
    private static let mostDoublings = 8
    /// The first `pause` above zero. The pause doubles with each further gap at size 1.
    private static let shortestPause = Duration.milliseconds(20)
    /// The maximum of `pause`.
    private static let longestPause = Duration.milliseconds(640)

    /// The maximum size in chunks.
    package let limit: Int
    private let delivery: SMPUpload.Delivery
    /// The number of chunks that may be in flight.
    package private(set) var size: Int
    /// The pause between an answer and the next chunk.
    ///
    /// The pause is above zero only from a gap at size 1 until the size grows. The device needs this pause to free its buffers after the
    /// answer. On a lossy link, the pause is always zero.
    package private(set) var pause = Duration.zero
    /// The size at which the last gap occurred. After a gap at size 1, the value is 2, so that the window does not soon grow above 1.
    ///
    /// Nil before the first gap. Also nil after the window has returned to this size, and `trial(of:)` chunks at this size were answered
    /// without a gap.
    private var overflow: Int?
    /// The number of further gaps at the size `overflow`. It is 0 after the first gap at this size.
    private var failures = 0
    /// The number of chunks that were answered since the last gap or the last change of the size.
    private var answered = 0

    /// Creates a window.
    ///
    /// - Parameters:
    ///   - limit: The maximum size in chunks.
    ///   - size: The first size in chunks; the default is 2. A size above `limit` is reduced to `limit`.
    ///   - delivery: The way in which the link delivers chunks.
    package init(limit: Int, size: Int? = nil, delivery: SMPUpload.Delivery) {
        self.limit = max(1, limit)
        self.size = min(self.limit, max(1, size ?? Self.firstSize))
        self.delivery = delivery
    }

    /// Records that a chunk was answered without a gap. The size grows if enough chunks were answered.
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
        // A lossy link can lose a chunk before it arrives at the device. So a gap on this link does not show that the device needs a pause.
        if size == 1, !delivery.isLossy { pause = min(max(Self.shortestPause, pause * 2), Self.longestPause) }
        failures = size == overflow ? min(failures + 1, Self.mostDoublings) : 0
        overflow = max(2, size)
        size = max(1, size / 2)
        answered = 0
    }

    /// Returns how many chunks must be answered without a gap before the window may return to `size`, a size at which a gap occurred.
    private func trial(of size: Int) -> Int { size * ((delivery.isLossy ? 8 : 100) << failures) }
}

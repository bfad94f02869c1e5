/// How many chunks may be in flight: fewer after each gap, and with care more again.
///
/// Zephyr's server drops a write without an answer where no buffer is free (`smp_bt.c`), so a gap is the only sign that there were
/// too many chunks. The size is halved then, and grows by one chunk with each window that is answered without a gap: additive
/// increase, multiplicative decrease, as in RFC 5681. The size at which a gap came is remembered. It is tried again only after many
/// windows, and after twice as many each time that it fails, so that what is sent again stays a small part of the image.
package struct SMPWindow: Sendable, Equatable {
    /// Two chunks keep most links busy, and a device that reports buffers can hold two.
    private static let firstSize = 2
    private static let mostDoublings = 8
    private static let shortestPause = Duration.milliseconds(20)
    private static let longestPause = Duration.milliseconds(640)

    /// The largest size, in chunks.
    package let limit: Int
    private let delivery: SMPUpload.Delivery
    /// Chunks that may be in flight.
    package private(set) var size: Int
    /// From an answer to the next chunk, where one chunk at a time is too many: the device has not freed its buffers yet.
    package private(set) var pause = Duration.zero
    /// The size at which the last gap came, at least 2; nil: there was none, or it was long ago.
    private var overflow: Int?
    /// Times in a row that this size was tried again and failed.
    private var failures = 0
    /// Chunks answered without a gap since the size changed.
    private var answered = 0

    /// - Parameters:
    ///   - limit: the largest size, in chunks.
    ///   - size: the first size; by default the limit, and at most 2.
    package init(limit: Int, size: Int? = nil, delivery: SMPUpload.Delivery) {
        self.limit = max(1, limit)
        self.size = min(self.limit, max(1, size ?? Self.firstSize))
        self.delivery = delivery
    }

    /// A chunk was answered, and no gap came before it.
    package mutating func grow() {
        answered += 1
        if size == overflow, answered >= trial(of: size) { (overflow, failures) = (nil, 0) }
        guard size < limit, answered >= (size + 1 == overflow ? trial(of: size + 1) : size) else { return }
        size += 1
        pause = .zero
        answered = 0
    }

    /// Chunks were lost, however many at a time.
    package mutating func shrink() {
        // A packet that may get lost by itself says nothing about buffers.
        if size == 1, delivery != .lossy { pause = min(max(Self.shortestPause, pause * 2), Self.longestPause) }
        failures = size == overflow ? min(failures + 1, Self.mostDoublings) : 0
        overflow = max(2, size)
        size = max(1, size / 2)
        answered = 0
    }

    /// Chunks without a gap before a size is tried again at which there was one.
    private func trial(of size: Int) -> Int { size * ((delivery == .lossy ? 8 : 100) << failures) }
}

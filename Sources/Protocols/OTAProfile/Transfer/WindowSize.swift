/// The number of chunks that may be in flight.
///
/// The size starts at the window that the device reports. A gap has one of two causes: the link lost a chunk, or the device's queue was
/// full because it is shorter than the window. After a gap, the host sends up to one window of chunks again. If the device accepted less
/// than one window between two gaps, the host sends more chunks again than the device accepts. Then the window shrinks by a quarter.
/// After each full window of acknowledged chunks, it grows by one chunk. So rare losses do not change the window.
package struct WindowSize: Sendable, Equatable {
    /// The maximum size in chunks.
    package let limit: Int
    /// The number of chunks that may be in flight, 1...`limit`.
    package private(set) var size: Int
    /// The number of chunks that were acknowledged since the last gap.
    private var sinceGap = 0
    /// The number of chunks that were acknowledged since the last gap or the last change of the size.
    private var sinceChange = 0

    /// Creates a window with its maximum size, at least one chunk.
    package init(limit: Int) {
        self.limit = max(1, limit)
        size = self.limit
    }

    /// Records acknowledged chunks. The size grows after each full window of them.
    package mutating func acknowledged(_ chunks: Int) {
        sinceGap += chunks
        sinceChange += chunks
        while size < limit, sinceChange >= size {
            sinceChange -= size
            size += 1
        }
    }

    /// Records a gap. The size shrinks by a quarter if less than one window was acknowledged since the previous gap.
    package mutating func lost() {
        if sinceGap < size { size = max(1, size * 3 / 4) }
        (sinceGap, sinceChange) = (0, 0)
    }
}

/// The parts of the image that a push has sent. A part contains the bytes that the push sends after one BEGIN, until
/// the next BEGIN. Each part is plain or encoded.
///
/// In the answer to each BEGIN, the device reports an offset in the image. The parts convert this offset to a number of
/// sent bytes, so that the push can count the bytes that the device has lost.
struct SentParts {
    private struct Part {
        /// The offset in the image at which the part starts.
        let start: Int
        /// The positions of an encoded part; nil for a plain part.
        let positions: StreamPositions?
        /// The number of bytes of the part that were sent, and that the device has not lost.
        var sent = 0

        func bytes(upTo offset: Int) -> Int {
            positions?.stream(at: offset) ?? (offset - start)
        }
    }
    private var parts: [Part] = []

    /// Records that a part begins at the device's offset.
    ///
    /// - Returns: the number of sent bytes that the device does not have. The push sends these bytes again.
    mutating func begin(at offset: Int, _ positions: StreamPositions?) -> Int {
        var lost = 0
        while let last = parts.last {
            let kept = last.start < offset ? min(last.sent, last.bytes(upTo: offset)) : 0
            lost += last.sent - kept
            parts[parts.count - 1].sent = kept
            guard kept == 0 else { break }
            parts.removeLast()
        }
        // The bytes that an earlier run sent also form a part, because the device can lose these bytes during this run.
        if parts.isEmpty, offset > 0 { parts.append(Part(start: 0, positions: nil, sent: offset)) }
        parts.append(Part(start: offset, positions: positions))
        return lost
    }

    /// Records the offset of the next byte to send. For a plain part, this is an offset in the image. For an encoded
    /// part, it is an offset in the stream.
    mutating func note(sentOffset: Int) {
        guard let last = parts.last else { return }
        parts[parts.count - 1].sent = last.positions == nil ? sentOffset - last.start : sentOffset
    }

    /// The number of sent bytes of all encoded parts, without the bytes that the device has lost.
    var encodedBytes: Int { parts.reduce(0) { $0 + ($1.positions == nil ? 0 : $1.sent) } }
}

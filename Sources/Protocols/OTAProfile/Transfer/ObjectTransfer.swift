import OTAFirmware

/// The transfer of one object, the envelope or the image.
///
/// An image can be encoded. An encoded image is a stream of LZMA2 chunks (``StreamPositions``). In the transfer of an encoded image, the
/// offsets and the bytes are those of the stream.
///
/// The transfer selects the next chunks, and decides when a flush is due. A flush is the request SYNC for the device's position.
/// The transfer also checks each position that the device reports. The limits are in docs/ota-profile.md, "What the host does".
package struct ObjectTransfer {
    /// The result of the check of a position that the device reports.
    package enum Verdict: Equatable {
        /// The transfer continues.
        case agreed
        /// Chunks were lost. The host must send `resent` bytes again.
        case rewound(resent: Int)
        /// The position in an answer to SYNC contradicts the sent bytes, or does not acknowledge all chunks before the SYNC. The host must
        /// send BEGIN for the object again.
        case mismatch
    }

    /// The maximum number of chunks from one flush to the next flush.
    package static let longestFlush = 256
    /// The maximum time from one flush to the next flush, while chunks are in flight.
    package static let flushInterval = Duration.seconds(2)
    /// The maximum time without a position from the device, while chunks are in flight. After this time, a flush is due.
    package static let longestSilence = Duration.seconds(1)
    /// The length in bytes of the sequence number at the start of each Data value.
    package static let sequenceLength = 2

    /// The maximum number of LZMA2 chunks of an encoded image that may start in the Data values in flight. The device may decode and write
    /// up to 16 KiB for each of these chunks. So this maximum limits the time until the device answers a SYNC.
    package static let mostStarts = 4
    /// A flush is due when this number of LZMA2 chunks starts in the Data values in flight.
    ///
    /// This number is lower than `mostStarts`, so that the host can send one more LZMA2 chunk while it waits for the answer to the SYNC.
    package static let startsPerFlush = 3

    package let object: TransferObject
    package let bytes: [UInt8]
    /// Converts between offsets in the encoded stream and offsets in the plain image; nil if `bytes` are the plain object.
    package let positions: StreamPositions?
    private let chunkLength: Int
    /// The device reports its position after each time that it has accepted this number of chunks (docs/ota-profile.md, "Progress").
    private let chunksPerReport: Int
    package private(set) var windowSize: WindowSize
    private var window: ChunkWindow
    private var flush: Flush?
    private var chunksSinceFlush = 0
    private var lastFlushAt: Duration
    private var lastHeardAt: Duration

    /// A SYNC that waits for its answer.
    private struct Flush {
        var sequence: UInt16
        /// The number of chunks that were sent after the SYNC.
        var chunksSent = 0
        /// True if a rewind arrived after the SYNC was sent.
        var rewound = false
    }

    /// Creates the transfer of an object from the position in the answer to BEGIN.
    ///
    /// - Parameters:
    ///   - position: the position in the answer to BEGIN. The caller must check the offset and the CRC-32 before this call.
    ///   - chunkLength: the maximum length of a Data value in bytes, including the sequence number.
    ///   - window: the number of chunks that may be in flight.
    ///   - positions: converts between offsets in the encoded stream and offsets in the plain image; nil if `bytes` are the plain object.
    package init(
        _ object: TransferObject, _ bytes: [UInt8], from position: Position, chunkLength: Int, window: WindowSize,
        positions: StreamPositions? = nil, at now: Duration
    ) {
        self.object = object
        self.bytes = bytes
        self.positions = positions
        self.chunkLength = chunkLength
        chunksPerReport = max(1, window.limit / 4)
        windowSize = window
        self.window = ChunkWindow(at: position)
        lastFlushAt = now
        lastHeardAt = now
    }

    /// The number of bytes of the object that the device has acknowledged.
    package var acknowledgedOffset: Int { window.acknowledgedMark.offset }
    /// The offset of the next chunk in the object, in bytes.
    package var sentOffset: Int { window.sentMark.offset }
    /// The number of bytes of the plain object that the device has certainly received. For an encoded image, these are the decoded bytes of
    /// all LZMA2 chunks that the device has acknowledged completely.
    package var acknowledgedPlainOffset: Int {
        positions?.completeImage(at: acknowledgedOffset) ?? acknowledgedOffset
    }
    /// The offset of the next chunk in the plain object, in bytes. For an encoded image, it is an estimate.
    package var sentPlainOffset: Int { positions?.image(at: sentOffset) ?? sentOffset }
    /// The number of chunks in flight.
    package var inFlight: Int { window.inFlight }
    /// Whether the device has acknowledged the whole object.
    package var isComplete: Bool { acknowledgedOffset == bytes.count }

    /// The time at which the caller must call `nextFlush(at:)`, if no event arrives earlier.
    ///
    /// Nil if no chunk is in flight, or if a SYNC waits for its answer.
    package var deadline: Duration? {
        guard inFlight > 0, flush == nil else { return nil }
        return min(lastFlushAt + Self.flushInterval, lastHeardAt + Self.longestSilence)
    }

    /// Returns the Data values that the host may send now, in order, and records them as sent.
    package mutating func nextChunks() -> [[UInt8]] {
        var room = windowSize.size - window.inFlight
        if let flush {
            // While a SYNC waits for its answer, the host sends at most one window of chunks. In BlueZ, chunks can overtake a SYNC,
            // because chunks are writes without response. Without the limit, chunks could delay the SYNC for ever.
            room = min(room, windowSize.size - flush.chunksSent)
        }
        var chunks: [[UInt8]] = []
        while room > 0, flush != nil || !hasSentEnough, let end = nextEnd {
            chunks.append(nextChunk(upTo: end))
            room -= 1
        }
        return chunks
    }

    /// True if a flush is due because enough chunks were sent, or because enough LZMA2 chunks start in the Data values in flight.
    private var hasSentEnough: Bool { chunksSinceFlush >= chunksPerFlush || startsInFlight >= Self.startsPerFlush }

    /// A flush is due when this number of chunks was sent since the last flush or rewind.
    ///
    /// After gaps, the window can be smaller than the number of chunks between two reports of the device. Then only a flush reports the
    /// position early enough, and a flush is due after each half of the window.
    private var chunksPerFlush: Int {
        let half = max(1, windowSize.size / 2)
        return chunksPerReport > half ? half : Self.longestFlush
    }

    /// The number of LZMA2 chunks that start in the Data values in flight; 0 for a plain object.
    private var startsInFlight: Int { positions?.starts(in: acknowledgedOffset..<sentOffset) ?? 0 }

    /// The end of the next Data value in the object; nil if no value may be sent now.
    ///
    /// At most one LZMA2 chunk of an encoded image may start in a value, and at most `mostStarts` LZMA2 chunks in the values in flight.
    private var nextEnd: Int? {
        let start = sentOffset
        guard start < bytes.count else { return nil }
        let end = min(start + chunkLength - Self.sequenceLength, bytes.count)
        guard let positions, let first = positions.start(atOrAfter: start), first < end else { return end }
        guard startsInFlight < Self.mostStarts else { return first > start ? first : nil }
        return min(end, positions.start(atOrAfter: first + 1) ?? end)
    }

    /// Returns the sequence number for a SYNC that is due now, and records this SYNC as sent. Returns nil if no SYNC is due.
    package mutating func nextFlush(at now: Duration) -> UInt16? {
        guard flush == nil, inFlight > 0 else { return nil }
        let atEnd = sentOffset == bytes.count
        let overdue = deadline.map { $0 <= now } ?? false
        guard atEnd || overdue || hasSentEnough else { return nil }
        flush = Flush(sequence: window.sent)
        lastFlushAt = now
        chunksSinceFlush = 0
        return window.sent
    }

    /// Handles the position in a Progress notification.
    ///
    /// A position that contradicts the sent bytes is ignored, because in the profile only an answer to SYNC can be a mismatch.
    package mutating func progressed(to position: Position, at now: Duration) -> Verdict {
        lastHeardAt = now
        return reading(of: position) ?? .agreed
    }

    /// Handles the position in the answer to the last SYNC.
    ///
    /// The result is `mismatch` in two cases. Either the position contradicts the sent bytes. Or the position does not acknowledge all
    /// chunks before the SYNC, and no rewind arrived after the SYNC was sent.
    package mutating func flushed(to position: Position, at now: Duration) -> Verdict {
        lastHeardAt = now
        lastFlushAt = now
        guard let verdict = reading(of: position) else { return .mismatch }
        defer { flush = nil }
        // The position can also acknowledge chunks that were sent after the SYNC. If no chunk is in flight now, the device has acknowledged
        // all of these chunks, so no further SYNC is due for them.
        if inFlight == 0 { chunksSinceFlush = 0 }
        guard verdict == .agreed, let flush, !flush.rewound else { return verdict }
        return window.isAcknowledged(upTo: flush.sequence) ? .agreed : .mismatch
    }

    /// Updates the window from a reported position. Returns nil if the position contradicts the sent bytes.
    private mutating func reading(of position: Position) -> Verdict? {
        let sent = sentOffset
        switch window.read(position) {
        case .acknowledged(let chunks):
            windowSize.acknowledged(chunks)
            return .agreed
        case .stale: return .agreed
        case .disagrees: return nil
        case .rewound(let accepted):
            windowSize.acknowledged(accepted)
            windowSize.lost()
            flush?.rewound = true
            chunksSinceFlush = 0
            return .rewound(resent: sent - position.offset)
        }
    }

    private mutating func nextChunk(upTo end: Int) -> [UInt8] {
        let start = sentOffset
        let sequence = window.sent
        var chunk: [UInt8] = []
        chunk.reserveCapacity(Self.sequenceLength + end - start)
        chunk.append(UInt8(truncatingIfNeeded: sequence))
        chunk.append(UInt8(truncatingIfNeeded: sequence >> 8))
        chunk.append(contentsOf: bytes[start..<end])
        let crc = CRC32.update(window.sentMark.crc, bytes[start..<end])
        window.book(ChunkWindow.Mark(offset: end, crc: crc))
        chunksSinceFlush += 1
        flush?.chunksSent += 1
        return chunk
    }
}

import OTAFirmware

/// The transfer of one object, the envelope or the image.
///
/// It decides which chunks to send next and when to flush, and it checks the positions that the device reports.
/// The host continues to send chunks while a flush is unanswered, up to the window.
package struct ObjectTransfer {
    /// The effect on the transfer of a position that the device reports.
    package enum Verdict: Equatable {
        case agreed
        /// Chunks were lost. `resent` is the number of bytes to send again.
        case rewound(resent: Int)
        /// The device's answer contradicts the sent bytes. The host must send BEGIN for the object again.
        case mismatch
    }

    package static let chunksPerFlush = 256
    package static let flushInterval = Duration.seconds(2)
    package static let longestSilence = Duration.seconds(1)
    /// A Data value starts with its sequence number.
    package static let sequenceLength = 2

    package let object: TransferObject
    package let bytes: [UInt8]
    private let chunkLength: Int
    private let windowLimit: Int
    private var window: ChunkWindow
    private var flush: Flush?
    private var chunksSinceFlush = 0
    private var lastFlushAt: Duration
    private var lastHeardAt: Duration

    /// A SYNC that waits for its answer.
    private struct Flush {
        var sequence: UInt16
        /// Chunks sent after the SYNC.
        var chunksSent = 0
        var rewound = false
    }

    /// - Parameters:
    ///   - position: the position in the answer to BEGIN. The caller has checked its offset and CRC.
    ///   - chunkLength: the maximum length of a Data value in bytes, including the sequence number.
    ///   - window: the maximum number of chunks in flight.
    package init(
        _ object: TransferObject, _ bytes: [UInt8], from position: Position, chunkLength: Int, window: Int,
        at now: Duration
    ) {
        self.object = object
        self.bytes = bytes
        self.chunkLength = chunkLength
        windowLimit = window
        self.window = ChunkWindow(at: position)
        lastFlushAt = now
        lastHeardAt = now
    }

    /// Bytes that the device has acknowledged.
    package var acknowledgedOffset: Int { window.acknowledgedMark.offset }
    /// Bytes that the host has sent, whether acknowledged or not.
    package var sentOffset: Int { window.sentMark.offset }
    package var inFlight: Int { window.inFlight }
    /// Whether the device has acknowledged the whole object.
    package var isComplete: Bool { acknowledgedOffset == bytes.count }

    /// The time at which `nextFlush(at:)` must be called if no event arrives earlier. Nil if no chunk is in flight or a flush is open.
    package var deadline: Duration? {
        guard inFlight > 0, flush == nil else { return nil }
        return min(lastFlushAt + Self.flushInterval, lastHeardAt + Self.longestSilence)
    }

    /// Returns the Data values that the host may send now, in order.
    package mutating func nextChunks() -> [[UInt8]] {
        var room = windowLimit - window.inFlight
        if let flush {
            // In BlueZ, writes without response can overtake writes with response. Without this limit, further chunks
            // could delay an unanswered flush forever.
            room = min(room, windowLimit - flush.chunksSent)
        }
        var chunks: [[UInt8]] = []
        while room > 0, sentOffset < bytes.count, flush != nil || chunksSinceFlush < Self.chunksPerFlush {
            chunks.append(nextChunk())
            room -= 1
        }
        return chunks
    }

    /// Returns the sequence number of a SYNC after the chunks that were sent so far; nil if no SYNC is due.
    package mutating func nextFlush(at now: Duration) -> UInt16? {
        guard flush == nil, inFlight > 0 else { return nil }
        let atEnd = sentOffset == bytes.count
        let overdue = deadline.map { $0 <= now } ?? false
        guard atEnd || overdue || chunksSinceFlush >= Self.chunksPerFlush else { return nil }
        flush = Flush(sequence: window.sent)
        lastFlushAt = now
        chunksSinceFlush = 0
        return window.sent
    }

    /// Handles a Progress notification. A position that disagrees is ignored: only answers can cause a mismatch.
    package mutating func progressed(to position: Position, at now: Duration) -> Verdict {
        lastHeardAt = now
        return reading(of: position) ?? .agreed
    }

    /// Handles the answer to the current flush.
    package mutating func flushed(to position: Position, at now: Duration) -> Verdict {
        lastHeardAt = now
        lastFlushAt = now
        guard let verdict = reading(of: position) else { return .mismatch }
        defer { flush = nil }
        // If the answer also acknowledges the chunks that were sent after the flush, these need no other flush.
        if inFlight == 0 { chunksSinceFlush = 0 }
        guard verdict == .agreed, let flush, !flush.rewound else { return verdict }
        return window.isAcknowledged(upTo: flush.sequence) ? .agreed : .mismatch
    }

    /// Returns nil if the position disagrees with the sent chunks.
    private mutating func reading(of position: Position) -> Verdict? {
        let sent = sentOffset
        switch window.read(position) {
        case .acknowledged, .stale: return .agreed
        case .disagrees: return nil
        case .rewound:
            flush?.rewound = true
            chunksSinceFlush = 0
            return .rewound(resent: sent - position.offset)
        }
    }

    private mutating func nextChunk() -> [UInt8] {
        let start = sentOffset
        let end = min(start + chunkLength - Self.sequenceLength, bytes.count)
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

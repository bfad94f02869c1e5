import OTAFirmware

/// One object, envelope or image, on its way: which chunks to send next, when to flush, and what the device's positions
/// mean. A sliding flush: the host never waits for its answer to go on.
package struct ObjectTransfer {
    /// What a position made of the transfer.
    package enum Verdict: Equatable {
        case agreed
        /// Chunks were lost; so many bytes are sent again.
        case rewound(resent: Int)
        /// The device's answer contradicts what was sent: the object has to be opened anew.
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

    /// A SYNC that is not yet answered.
    private struct Flush {
        var sequence: UInt16
        /// Chunks sent since.
        var chunksSent = 0
        var rewound = false
    }

    /// - Parameters:
    ///   - position: BEGIN's answer, of which offset and CRC have been checked.
    ///   - chunkLength: longest Data value in bytes, sequence number included.
    ///   - window: most chunks in flight.
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
    /// Bytes that are sent, acknowledged or not.
    package var sentOffset: Int { window.sentMark.offset }
    package var inFlight: Int { window.inFlight }
    /// The device has it all.
    package var isComplete: Bool { acknowledgedOffset == bytes.count }

    /// When it wants to be asked again for a flush, whatever the device says; nil: nothing is in flight.
    package var deadline: Duration? {
        guard inFlight > 0, flush == nil else { return nil }
        return min(lastFlushAt + Self.flushInterval, lastHeardAt + Self.longestSilence)
    }

    /// The Data values that may be sent now, in order.
    package mutating func nextChunks() -> [[UInt8]] {
        var room = windowLimit - window.inFlight
        if let flush {
            // BlueZ lets commands overtake requests: more than a window behind an unanswered flush could hold it back
            // for ever.
            room = min(room, windowLimit - flush.chunksSent)
        }
        var chunks: [[UInt8]] = []
        while room > 0, sentOffset < bytes.count, flush != nil || chunksSinceFlush < Self.chunksPerFlush {
            chunks.append(nextChunk())
            room -= 1
        }
        return chunks
    }

    /// The sequence number for a SYNC that is due now, behind what was sent so far; nil: none is.
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

    /// A Progress notification: one that disagrees is ignored, for the answers are what counts.
    package mutating func progressed(to position: Position, at now: Duration) -> Verdict {
        lastHeardAt = now
        return reading(of: position) ?? .agreed
    }

    /// The answer to the flush under way.
    package mutating func flushed(to position: Position, at now: Duration) -> Verdict {
        lastHeardAt = now
        lastFlushAt = now
        guard let verdict = reading(of: position) else { return .mismatch }
        defer { flush = nil }
        // An answer that acknowledges what was sent behind the flush, too, stands for a flush of that.
        if inFlight == 0 { chunksSinceFlush = 0 }
        guard verdict == .agreed, let flush, !flush.rewound else { return verdict }
        return window.isAcknowledged(upTo: flush.sequence) ? .agreed : .mismatch
    }

    /// Nil where the position disagrees with what was sent.
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

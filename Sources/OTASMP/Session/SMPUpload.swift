/// The upload of one image. It selects the next chunks and evaluates the device's answers.
///
/// The device drops a chunk whose offset it does not expect, and answers with the expected offset. Answers arrive in the order of the
/// chunks. So an answer shows that each earlier chunk was answered or lost. After a lost chunk, the upload waits for the answers to all
/// chunks in flight before it sends more. Otherwise it would send some bytes twice without need.
package struct SMPUpload {
    /// The effect of an answer or a timeout on the upload.
    package enum Verdict: Equatable {
        case agreed
        /// Chunks were lost or the device had no buffer for them. The upload sends `resent` bytes again.
        case rewound(resent: Int)
        /// The whole image was sent, but the device reports no upload in progress. Either it has the image and its last answer was
        /// lost, or it has restarted.
        case stateLost
        /// The device's offset is negative or past the image's end.
        case impossible(offset: Int)
    }
    private struct Sent {
        var sequence: UInt8
        var end: Int
        /// The time at which this chunk became the oldest chunk in flight.
        var since: Duration
        var due: Duration
    }

    /// The maximum wait for the answer to the first chunk. A device may erase its whole slot before it answers. A repeated first chunk
    /// does no harm.
    package static let openingLimit = Duration.seconds(10)
    /// The timeout of a chunk is the time of the slowest answer so far, multiplied by this factor.
    private static let timeoutFactor = 4

    package let bytes: [UInt8]
    private let digest: [UInt8]
    private let image: Int
    /// The longest frame in bytes, header included.
    package let longestFrame: Int
    private let delivery: Delivery
    /// The longest time from a chunk to its answer, without the first chunk.
    private var slowest: Duration?
    /// The number of chunks that may be in flight.
    package private(set) var window: SMPWindow
    private var inFlight: [Sent] = []
    /// The offset in the device's last answer.
    package private(set) var acknowledgedOffset = 0
    /// The offset of the next chunk.
    package private(set) var sentOffset = 0
    /// Whether the last byte was sent.
    private var wasSent = false
    /// Whether the device has accepted the first chunk, which has the image's properties.
    package private(set) var isOpen = false
    /// Whether the device will drop all chunks in flight. Until their answers have arrived, the upload sends nothing.
    package private(set) var isDraining = false
    private var rewinds = (offset: -1, count: 0)
    /// The number of timeouts in a row.
    private var timeouts = 0
    /// The device's result of the comparison of the file's digest with the received bytes; nil if it did not report one.
    package private(set) var match: Bool?

    /// Creates an upload.
    ///
    /// - Parameters:
    ///   - digest: The SHA-256 of `bytes`. The device recognizes an interrupted upload by it.
    ///   - image: The image number on a device with several processors.
    ///   - longestFrame: The longest frame in bytes, header included.
    ///   - window: The number of chunks that may be in flight.
    ///   - delivery: The way in which the link delivers chunks.
    package init(
        _ bytes: [UInt8], digest: [UInt8], image: Int, longestFrame: Int, window: SMPWindow, delivery: Delivery
    ) {
        self.delivery = delivery
        self.bytes = bytes
        self.digest = digest
        self.image = image
        self.longestFrame = longestFrame
        self.window = window
    }

    package var isComplete: Bool { acknowledgedOffset == bytes.count && inFlight.isEmpty }
    /// The number of consecutive rewinds to the current offset.
    package var rewindsHere: Int { rewinds.offset == acknowledgedOffset ? rewinds.count : 0 }

    /// The time limit for the answer to the oldest chunk; nil if no chunk is in flight.
    package var deadline: Duration? { inFlight.first?.due }

    package func awaits(_ sequence: UInt8) -> Bool { inFlight.contains { $0.sequence == sequence } }

    /// Returns the next chunk that may be sent now, or nil. The first chunk is sent alone, because its answer has the offset at
    /// which the upload continues.
    package func nextChunk() -> SMPChunk? {
        guard isOpen else {
            guard inFlight.isEmpty else { return nil }
            let opening = SMPChunk.Opening(length: bytes.count, digest: digest, image: image)
            return SMPChunk(opening: opening, offset: 0, data: Array(bytes.prefix(SMPChunk.openingLength)))
        }
        guard !isDraining, inFlight.count < window.size, sentOffset < bytes.count else { return nil }
        let capacity = SMPChunk.capacity(offset: sentOffset, longest: longestFrame)
        return SMPChunk(offset: sentOffset, data: Array(bytes[sentOffset...].prefix(capacity)))
    }

    /// Records that a chunk was sent.
    package mutating func sent(_ chunk: SMPChunk, sequence: UInt8, at now: Duration) {
        let end = chunk.offset + chunk.data.count
        let limit = isOpen ? answerLimit : openingLimit
        inFlight.append(Sent(sequence: sequence, end: end, since: now, due: now + limit))
        sentOffset = end
        wasSent = wasSent || end == bytes.count
    }

    private var openingLimit: Duration {
        delivery == .lossy ? min(.seconds(1) * (1 << timeouts), Self.openingLimit) : Self.openingLimit
    }

    /// The time limit for an answer. It depends on the slowest answer and doubles after each timeout.
    private var answerLimit: Duration {
        guard let slowest else { return delivery.longestWait }
        return min(max(delivery.shortestWait, slowest * Self.timeoutFactor) * (1 << timeouts), delivery.longestWait)
    }

    /// Evaluates the device's answer to a chunk. The offset is that of the next byte that the device expects.
    package mutating func answered(_ sequence: UInt8, offset: Int, match: Bool?, at now: Duration) -> Verdict {
        guard let chunk = take(sequence, at: now) else { return .agreed }
        guard 0...bytes.count ~= offset else { return .impossible(offset: offset) }
        if let match { self.match = match }
        acknowledgedOffset = offset
        if offset == chunk.end, !isDraining {
            if isOpen { window.grow() }
            isOpen = true
            return .agreed
        }
        if !isOpen, offset > chunk.end {
            // The device resumes an earlier upload of the same file, so it already has the first chunk.
            isOpen = true
            sentOffset = offset
            return .agreed
        }
        return outOfSync()
    }

    /// Evaluates the answer that the device had no buffer for a chunk.
    package mutating func bufferFull(_ sequence: UInt8, at now: Duration) -> Verdict {
        guard take(sequence, at: now) != nil else { return .agreed }
        return outOfSync()
    }

    /// Discards the chunks in flight after a timeout. Returns nil if there were too many timeouts in a row.
    package mutating func timedOut() -> Verdict? {
        timeouts += 1
        guard timeouts < (isOpen ? delivery.maxTimeouts : delivery.maxFirstTimeouts) else { return nil }
        inFlight = []
        return outOfSync()
    }

    /// Removes the answered chunk and all earlier chunks, and returns the answered chunk. The timeouts of the later chunks start again.
    private mutating func take(_ sequence: UInt8, at now: Duration) -> Sent? {
        guard let index = inFlight.firstIndex(where: { $0.sequence == sequence }) else { return nil }
        let chunk = inFlight[index]
        timeouts = 0
        if isOpen { slowest = max(slowest ?? .zero, now - inFlight[0].since) }
        inFlight.removeFirst(index + 1)
        for index in inFlight.indices { (inFlight[index].since, inFlight[index].due) = (now, now + answerLimit) }
        return chunk
    }

    private mutating func outOfSync() -> Verdict {
        isDraining = !inFlight.isEmpty
        guard !isDraining else { return .agreed }
        let resent = max(0, sentOffset - acknowledgedOffset)
        sentOffset = acknowledgedOffset
        if isOpen, wasSent, acknowledgedOffset == 0 { return .stateLost }
        if acknowledgedOffset > 0 { window.shrink() }
        // A device that has lost the upload needs the image's properties again.
        isOpen = isOpen && acknowledgedOffset > 0
        rewinds = (acknowledgedOffset, rewinds.offset == acknowledgedOffset ? rewinds.count + 1 : 1)
        return .rewound(resent: resent)
    }
}

extension SMPUpload {
    /// The way in which the link delivers chunks. It determines the limits of the answer timeout.
    package enum Delivery: Sendable {
        /// Each chunk is one UDP datagram or one line on a serial port, and can be lost.
        case lossy
        /// Each chunk is one value, and the link does not lose values.
        case whole
        /// Each chunk is split into several values. A slow link needs a long time for them.
        case fragmented

        /// The maximum timeout of a chunk. It also applies before the first answer, when no time is measured yet.
        package var longestWait: Duration { self == .fragmented ? .seconds(20) : .seconds(4) }
        /// The minimum timeout of a chunk.
        ///
        /// A device may erase a flash sector for a chunk, which lasts up to 4 s (128 KiB of an STM32F4, datasheet). A chunk that is
        /// sent twice during an erase does no harm.
        package var shortestWait: Duration {
            switch self {
            case .lossy: .milliseconds(500)
            case .whole: .seconds(4)
            case .fragmented: .seconds(5)
            }
        }
        /// The number of timeouts in a row that ends the upload.
        var maxTimeouts: Int { self == .lossy ? 5 : 3 }
        /// The number of timeouts of the first chunk that ends the upload; about a minute in total.
        var maxFirstTimeouts: Int { self == .lossy ? 9 : 6 }
    }
}

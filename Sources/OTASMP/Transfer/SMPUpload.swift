/// One image on its way: which chunks may be sent next, and what the device's answers mean.
///
/// The device's offset is the only truth: a chunk that does not fit is dropped by the device and answered with the offset
/// that it wants. The answers come in the order of the chunks, so an answer to a later one says that those before it are
/// answered or lost. What was sent past a lost chunk is waited for, so that nothing is sent twice without need.
package struct SMPUpload {
    /// What an answer, or a silence, made of the upload.
    package enum Verdict: Equatable {
        case agreed
        /// Chunks were lost, or came when no buffer was free; so many bytes are sent again.
        case rewound(resent: Int)
        /// The device knows of no upload, and all of the image was sent: it has all of it and its last answer got lost, or it
        /// was restarted.
        case stateLost
        /// The device claims more bytes than there are.
        case impossible(offset: Int)
    }
    private struct Sent {
        var sequence: UInt8
        var end: Int
        /// Nothing was in flight before it since then.
        var since: Duration
        var due: Duration
    }

    /// A device may erase its whole slot with the first chunk, and then finds it as often as it was sent: no matter.
    package static let openingLimit = Duration.seconds(10)
    /// So many times as long as the slowest answer yet.
    private static let timeoutFactor = 4

    package let bytes: [UInt8]
    private let digest: [UInt8]
    private let image: Int
    /// The longest frame, in bytes, header included.
    package let longestFrame: Int
    private let delivery: Delivery
    /// The slowest answer to a chunk behind the first one.
    private var slowest: Duration?
    /// How many chunks may be in flight.
    package private(set) var window: SMPWindow
    private var inFlight: [Sent] = []
    /// Bytes that the device has said it holds.
    package private(set) var acknowledgedOffset = 0
    /// Where the next chunk begins.
    package private(set) var sentOffset = 0
    /// Every byte was sent since the device took the first chunk.
    private var wasSent = false
    /// The device has taken the first chunk, which says what comes.
    package private(set) var isOpen = false
    /// What is in flight does not fit any more: its answers are waited for, and nothing is sent.
    package private(set) var isDraining = false
    private var rewinds = (offset: -1, count: 0)
    /// Times in a row that no answer came.
    private var timeouts = 0
    /// The device compared the file's digest with what it holds.
    package private(set) var match: Bool?

    /// - Parameters:
    ///   - digest: SHA-256 of `bytes`, by which the device knows an upload that was broken off.
    ///   - image: its number on a device with several processors.
    ///   - longestFrame: in bytes, header included.
    ///   - window: how many chunks may be in flight.
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
    /// Times in a row that the same bytes were to be sent again.
    package var rewindsHere: Int { rewinds.offset == acknowledgedOffset ? rewinds.count : 0 }

    /// When the oldest chunk's answer has to be there; nil: nothing is in flight.
    package var deadline: Duration? { inFlight.first?.due }

    package func awaits(_ sequence: UInt8) -> Bool { inFlight.contains { $0.sequence == sequence } }

    /// The next chunk that may be sent now; nil: none may. The first one goes alone: its answer says where to go on.
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

    /// A chunk went out.
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

    /// A link that is slow shows it in its answers; one that was quick and falls silent need not be waited for as long, though
    /// twice as long after each silence.
    private var answerLimit: Duration {
        guard let slowest else { return delivery.longestWait }
        return min(max(delivery.shortestWait, slowest * Self.timeoutFactor) * (1 << timeouts), delivery.longestWait)
    }

    /// The device took a chunk, or says what it wants in its place.
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
            // An earlier upload of the same file: nothing that was sent is wanted.
            isOpen = true
            sentOffset = offset
            return .agreed
        }
        return outOfSync()
    }

    /// The device had no buffer for a chunk.
    package mutating func bufferFull(_ sequence: UInt8, at now: Duration) -> Verdict {
        guard take(sequence, at: now) != nil else { return .agreed }
        return outOfSync()
    }

    /// No answer came in time: what is in flight is given up. Nil: and so it was too often.
    package mutating func timedOut() -> Verdict? {
        timeouts += 1
        guard timeouts < (isOpen ? delivery.maxTimeouts : delivery.maxFirstTimeouts) else { return nil }
        inFlight = []
        return outOfSync()
    }

    /// The chunk that is answered; those before it never will be. The ones behind it have waited for it.
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
        // A device that has lost its upload wants to be told anew what comes.
        isOpen = isOpen && acknowledgedOffset > 0
        rewinds = (acknowledgedOffset, rewinds.offset == acknowledgedOffset ? rewinds.count + 1 : 1)
        return .rewound(resent: resent)
    }
}

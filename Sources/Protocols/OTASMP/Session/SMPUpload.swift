/// The upload of one image: selects the next chunks, and evaluates the device's answers.
///
/// The device drops a chunk with an unexpected offset, and answers with the expected offset. Answers arrive in the order of the chunks.
/// So an answer shows that each earlier chunk was answered or lost.
///
/// After a lost chunk, the device drops all later chunks in flight. Only the answer to the last of these chunks has the offset at which the
/// upload continues. So the upload waits for all these answers before it sends chunks again.
package struct SMPUpload {
    /// The effect of an answer or a timeout on the upload.
    package enum Verdict: Equatable {
        /// Nothing must be sent again now. If `isDraining` is true, the upload waits for further answers; otherwise it continues.
        case agreed
        /// Chunks were lost, or the device had no buffer for them. The upload sends `resent` bytes again.
        case rewound(resent: Int)
        /// The last byte was sent, but the device's offset is 0. This means that no upload is in progress.
        ///
        /// Either the device has the whole image, and its last answer was lost. Or the device has restarted and lost the received bytes.
        case stateLost
        /// The device's offset is negative or after the end of the image.
        case impossible(offset: Int)
    }
    /// A chunk in flight.
    private struct Sent {
        var sequence: UInt8
        /// The length of the packet in bytes, including the header.
        var length: Int
        /// The offset of the chunk's first byte, and the offset of the first byte after the chunk.
        var offset, end: Int
        /// The time from which the answer time of the chunk is measured. It is the later of two times: the time at which the chunk was
        /// sent, and the time of the last answer to an earlier chunk.
        var since: Duration
        /// The time at which the chunk times out.
        var due: Duration
    }

    /// The maximum timeout of the first chunk. This timeout is long, because a device may erase its whole slot before it answers the first
    /// chunk.
    ///
    /// After the timeout, the first chunk is sent again. If the device receives this chunk twice, the second one has no effect.
    package static let openingLimit = Duration.seconds(10)
    /// The timeout of a chunk after the first one is `slowest` multiplied by this factor, within the limits of `delivery`.
    private static let timeoutFactor = 4
    /// The largest write unit of a flash in bytes (MCUboot, `BOOT_MAX_ALIGN`).
    package static let largestWriteUnit = 32

    package let bytes: [UInt8]
    private let digest: [UInt8]
    private let image: Int
    /// The maximum length of a packet in bytes, including the header.
    package let longestFrame: Int
    private let delivery: Delivery
    /// The longest answer time of a chunk so far (`Sent.since`); nil before the first measurement.
    ///
    /// The first chunk is not measured, because the device may erase its whole slot before it answers.
    private var slowest: Duration?
    /// The number of chunks that may be in flight.
    package private(set) var window: SMPWindow
    /// The limit of the packets' length, below `longestFrame`.
    package private(set) var packetLimit: SMPPacketLimit
    /// The chunks in flight, from the oldest to the newest.
    private var inFlight: [Sent] = []
    /// The offset that the device reported last; 0 before the first answer.
    package private(set) var acknowledgedOffset = 0
    /// The offset of the next chunk.
    package private(set) var sentOffset = 0
    /// True after the last byte of the image was sent.
    private var wasSent = false
    /// True after the device accepted the first chunk, which has the image's properties. False again if the device loses the upload.
    package private(set) var isOpen = false
    /// True if an answer showed that a chunk was lost or refused, and later chunks are still in flight. The device drops these later
    /// chunks. So the upload waits until all of them are answered or have timed out.
    package private(set) var isDraining = false
    /// The offset of the last rewind, and the number of consecutive rewinds to this offset. Before the first rewind, the offset is -1.
    private var rewinds = (offset: -1, count: 0)
    /// The number of timeouts in a row.
    private var timeouts = 0
    /// True after the device stored only the whole write units of a chunk. From then on, each chunk except the last one consists of whole
    /// write units.
    private var isAligned = false
    /// True if the device reported that the received bytes match the file's digest. False if the device reported that they do not match.
    /// Nil if the device has not reported a result.
    package private(set) var match: Bool?

    /// Creates an upload.
    ///
    /// - Parameters:
    ///   - digest: The SHA-256 of `bytes`, by which the device recognizes an interrupted upload.
    ///   - image: The image number of MCUboot; 0 on a device with one image.
    ///   - longestFrame: The maximum length of a packet in bytes, including the header.
    ///   - packetLimit: The limit of the packets' length.
    ///   - window: The number of chunks that may be in flight.
    ///   - delivery: The way in which the link delivers chunks.
    package init(
        _ bytes: [UInt8], digest: [UInt8], image: Int, longestFrame: Int,
        packetLimit: SMPPacketLimit = SMPPacketLimit(),
        window: SMPWindow, delivery: Delivery
    ) {
        self.delivery = delivery
        self.bytes = bytes
        self.digest = digest
        self.image = image
        self.longestFrame = longestFrame
        self.packetLimit = packetLimit
        self.window = window
    }

    /// True if the device has acknowledged the whole image, and no chunk is in flight.
    package var isComplete: Bool { acknowledgedOffset == bytes.count && inFlight.isEmpty }
    /// The number of consecutive rewinds to the acknowledged offset.
    package var rewindsHere: Int { rewinds.offset == acknowledgedOffset ? rewinds.count : 0 }

    /// True if the link can lose a part of a chunk.
    var losesBytes: Bool { delivery == .fragmented || delivery.discardTime > .zero }
    /// The time at which the oldest chunk in flight times out; nil if no chunk is in flight.
    package var deadline: Duration? { inFlight.first?.due }
    /// The pause between an answer and the next chunk.
    package var pause: Duration { packetLimit.isTesting ? SMPPacketLimit.pause : window.pause }
    /// The length in bytes of the packet of the oldest chunk in flight; 0 if no chunk is in flight.
    package var oldestLength: Int { inFlight.first?.length ?? 0 }

    /// Returns whether a packet is the answer to a chunk in flight.
    func isAnswered(by frame: SMPFrame) -> Bool {
        frame.group == SMPRequest.imageGroup && frame.command == 1
            && inFlight.contains { $0.sequence == frame.sequence }
    }

    /// Returns the chunk to send next; nil if the host must not send a chunk now.
    ///
    /// The first chunk is sent alone, because the answer to the first chunk has the offset at which the upload continues.
    package func nextChunk() -> SMPChunk? {
        guard isOpen else {
            guard inFlight.isEmpty else { return nil }
            let opening = SMPChunk.Opening(length: bytes.count, digest: digest, image: image)
            return SMPChunk(opening: opening, offset: 0, data: Array(bytes.prefix(SMPChunk.openingLength)))
        }
        let room = packetLimit.isTesting ? 1 : window.size
        guard !isDraining, inFlight.count < room, sentOffset < bytes.count else { return nil }
        var capacity = SMPChunk.capacity(offset: sentOffset, longest: packetLimit.nextLength(of: longestFrame))
        if isAligned, sentOffset + capacity < bytes.count, capacity > Self.largestWriteUnit {
            capacity -= (sentOffset + capacity) % Self.largestWriteUnit
        }
        return SMPChunk(offset: sentOffset, data: Array(bytes[sentOffset...].prefix(capacity)))
    }

    /// Records that a chunk was sent.
    package mutating func sent(_ chunk: SMPChunk, sequence: UInt8, at now: Duration) {
        let end = chunk.offset + chunk.data.count
        let limit = isOpen ? answerLimit : openingLimit
        inFlight.append(
            Sent(
                sequence: sequence, length: chunk.packetLength, offset: chunk.offset, end: end, since: now,
                due: now + limit))
        sentOffset = end
        wasSent = wasSent || end == bytes.count
    }

    /// The timeout of the next attempt to send the first chunk.
    ///
    /// On a lossy link, the first attempt has a timeout of 1 s, or of the time after which the device discards an incomplete packet. The
    /// timeout doubles for each further attempt, up to the maximum. On other links, the timeout is always the maximum.
    private var openingLimit: Duration {
        delivery.isLossy
            ? min(max(.seconds(1), delivery.discardTime) * (1 << timeouts), Self.openingLimit) : Self.openingLimit
    }

    /// The timeout of each chunk except the first one. It depends on the slowest answer so far.
    ///
    /// The timeout doubles each time a chunk times out. After an answer, the timeout has its usual value again.
    private var answerLimit: Duration {
        guard let slowest else { return delivery.longestWait }
        return min(max(delivery.shortestWait, slowest * Self.timeoutFactor) * (1 << timeouts), delivery.longestWait)
    }

    /// Evaluates the device's answer to a chunk.
    ///
    /// - Parameters:
    ///   - sequence: the sequence number of the chunk.
    ///   - offset: the offset of the next byte that the device expects.
    ///   - match: whether the received bytes match the file's digest; nil if the answer does not report this.
    package mutating func answered(_ sequence: UInt8, offset: Int, match: Bool?, at now: Duration) -> Verdict {
        guard let chunk = take(sequence, at: now) else { return .agreed }
        guard 0...bytes.count ~= offset else { return .impossible(offset: offset) }
        if let match { self.match = match }
        acknowledgedOffset = offset
        // An offset after the end of the chunk shows that the device has also received an earlier chunk, which timed out.
        if isOpen { packetLimit.received(offset > chunk.end ? packetLimit.length(of: longestFrame) : chunk.length) }
        if offset == chunk.end, !isDraining {
            if isOpen { window.grow() }
            isOpen = true
            return .agreed
        }
        if !isOpen, offset > chunk.end {
            // The device resumes an earlier upload of the same file, so the device already has the first chunk.
            isOpen = true
            sentOffset = offset
            return .agreed
        }
        // MCUboot's serial recovery stores only the whole write units of a chunk, and answers with the offset after them. So the device has
        // lost nothing, and the next chunk begins there.
        if isOpen, !isDraining, inFlight.isEmpty, offset > chunk.offset, offset < chunk.end,
            chunk.end - offset < Self.largestWriteUnit
        {
            isAligned = true
            sentOffset = offset
            window.grow()
            return .agreed
        }
        return outOfSync()
    }

    /// Evaluates an answer in which the device reports that it had no buffer for the chunk.
    package mutating func bufferFull(_ sequence: UInt8, at now: Duration) -> Verdict {
        guard let chunk = take(sequence, at: now) else { return .agreed }
        if isOpen { packetLimit.received(chunk.length) }
        return outOfSync()
    }

    /// Handles a timeout: discards the chunks in flight, so that they are sent again. The limit of the packets' length can become smaller.
    ///
    /// - Returns: nil after too many timeouts in a row. The caller must then end the upload on this link.
    package mutating func timedOut() -> Verdict? {
        timeouts += 1
        if isOpen, delivery.discardTime > .zero { packetLimit.lostBytes(oldestLength) }
        let isTest = isOpen && (packetLimit.timedOut(oldestLength) || packetLimit.isTesting)
        guard timeouts < (isOpen ? delivery.maxTimeouts : delivery.maxFirstTimeouts) else { return nil }
        inFlight = []
        return outOfSync(isOverflow: !isTest)
    }

    /// Removes the answered chunk and all earlier chunks from the chunks in flight. The timeouts of the later chunks start again.
    ///
    /// - Returns: the answered chunk; nil if no chunk in flight has this sequence number.
    private mutating func take(_ sequence: UInt8, at now: Duration) -> Sent? {
        guard let index = inFlight.firstIndex(where: { $0.sequence == sequence }) else { return nil }
        let chunk = inFlight[index]
        timeouts = 0
        if isOpen { slowest = max(slowest ?? .zero, now - inFlight[0].since) }
        inFlight.removeFirst(index + 1)
        for index in inFlight.indices { (inFlight[index].since, inFlight[index].due) = (now, now + answerLimit) }
        return chunk
    }

    /// Handles a lost or refused chunk. If chunks are still in flight, only sets `isDraining`. If no chunk is in flight, sets the offset of
    /// the next chunk to the offset in the device's last answer.
    ///
    /// - Parameter isOverflow: false if the chunk was possibly too long. Then the loss does not show that the window is too large.
    /// - Returns: `agreed` if chunks are still in flight; `rewound` or `stateLost` if no chunk is in flight.
    private mutating func outOfSync(isOverflow: Bool = true) -> Verdict {
        isDraining = !inFlight.isEmpty
        guard !isDraining else { return .agreed }
        let resent = max(0, sentOffset - acknowledgedOffset)
        sentOffset = acknowledgedOffset
        if isOpen, wasSent, acknowledgedOffset == 0 { return .stateLost }
        if acknowledgedOffset > 0, isOverflow { window.shrink() }
        // Offset 0 means that the device has lost the upload. The device then needs the first chunk with the image's properties again.
        isOpen = isOpen && acknowledgedOffset > 0
        rewinds = (acknowledgedOffset, rewinds.offset == acknowledgedOffset ? rewinds.count + 1 : 1)
        return .rewound(resent: resent)
    }
}

extension SMPUpload {
    /// The way in which the link delivers chunks. It determines the timeouts of the chunks.
    package enum Delivery: Sendable, Equatable {
        /// Over UDP or a serial port, each packet is one message, and the link can lose messages. A chunk is sent again only after
        /// `discardTime` (see `LinkProperties`).
        case lossy(discardTime: Duration)
        /// Over Bluetooth LE, each packet is one value, and the link does not lose values.
        case whole
        /// Over Bluetooth LE, a packet is split into several values. A slow link needs a long time for all values of a packet.
        case fragmented

        /// The maximum timeout of a chunk after the first one. This timeout also applies before the first answer is measured.
        package var longestWait: Duration { self == .fragmented ? .seconds(20) : .seconds(4) }
        /// The minimum timeout of a chunk after the first one.
        ///
        /// A device may erase a flash sector before it answers. The erase lasts up to 4 s (a sector of 128 KiB on an STM32F4, datasheet).
        /// Therefore, the minimum is at least 4 s on a link that loses no chunks.
        ///
        /// On a lossy link, the minimum is shorter, so that the host soon sends a lost chunk again. The host may then send a chunk twice
        /// during an erase. The second chunk has no effect.
        package var shortestWait: Duration {
            switch self {
            case .lossy: max(.milliseconds(500), discardTime)
            case .whole: .seconds(4)
            case .fragmented: .seconds(5)
            }
        }
        /// After this number of timeouts in a row, the upload on this link ends.
        var maxTimeouts: Int { isLossy ? 5 : 3 }
        /// After this number of timeouts of the first chunk, the upload on this link ends. These timeouts together last about one minute.
        var maxFirstTimeouts: Int { isLossy ? 9 : 6 }

        var isLossy: Bool { if case .lossy = self { true } else { false } }
        var discardTime: Duration { if case .lossy(let time) = self { time } else { .zero } }
    }
}

/// The messages between this peer and another one. The value outlives the link: after a lost link, both peers send their positions, and the
/// transfer continues at these positions. So no message is lost, and none arrives twice.
public struct Conversation: Sendable {
    /// The maximum length of a message in bytes of UTF-8.
    public static let maximumLength = 65536
    /// The maximum number of bytes that wait for an acknowledgement.
    public static let maximumWaiting = Outbox.limit
    /// A receiver of a long message reports its position after this number of frames or after this time, so that the sender sees the
    /// progress. The time is for links with less than seven frames per second.
    private static let reportLimit = (frames: 32, time: Duration.seconds(5))

    /// The effects of a received frame.
    public struct Outcome: Sendable, Hashable {
        /// The frames to send.
        public var frames: [Frame] = []
        /// The complete message.
        public var message: String?
        /// The numbers of this peer's messages that the other peer has received.
        public var delivered: [UInt32] = []
        /// Whether the other peer has left the chat.
        public var isGoodbye = false
        /// Whether the other peer has received this peer's goodbye.
        public var isGoodbyeDelivered = false
        /// Whether bytes have arrived that were not known, at this peer or at the other one.
        public var isProgress = false

        public init() {}
    }

    private var outbox = Outbox()
    private var incomingSequence: UInt32 = 1
    private var incoming: [UInt8] = []
    /// The maximum length of a frame on the current link. Nil: no link.
    private var frameLength: Int?
    /// Whether the other peer has sent its position on this link.
    public private(set) var isSynchronized = false
    /// The last offset of the message on its way that the other peer has reported.
    private var reported: UInt16 = 0
    /// The number of frames after this peer's last position, and the time of the first one.
    private var unreported: (frames: Int, since: Duration)?

    public init() {}

    /// The number of messages that the other peer has not acknowledged.
    public var undelivered: Int { outbox.undelivered }
    /// The number of the last message of this peer. 0: no message.
    public var lastNumber: UInt32 { outbox.texts }
    /// Whether the other peer may not know that this peer has left.
    public var owesGoodbye: Bool { outbox.endsWithGoodbye }
    /// Whether the other peer has acknowledged everything.
    public var isSettled: Bool { outbox.isEmpty }

    /// Starts a link, and returns this peer's position.
    public mutating func link(frameLength: Int) -> Frame {
        self.frameLength = frameLength
        (isSynchronized, unreported) = (false, nil)
        return position
    }

    public mutating func unlink() { (frameLength, isSynchronized) = (nil, false) }

    /// Adds a message, and returns the frames to send now. The number of the message is ``lastNumber``.
    public mutating func send(_ text: String) throws(ChatError) -> [Frame] {
        let bytes = Array(text.utf8)
        guard 1...Self.maximumLength ~= bytes.count else { throw .wrongLength }
        guard outbox.count + bytes.count <= Self.maximumWaiting else { throw .tooMuchWaits }
        return queue { $0.add(bytes) }
    }

    /// Leaves the chat. Returns the frames to send now.
    public mutating func leave() -> [Frame] { queue { $0.addGoodbye() } }

    /// Returns the goodbye, to send it at once: before the messages that wait, and before the other peer has sent its position.
    public mutating func earlyGoodbye() -> Frame? { outbox.earlyGoodbye() }

    /// Enters the chat again, before the other peer knows that this peer has left.
    public mutating func enter() { outbox.removeGoodbye() }

    /// Discards the received part of a message, which the other peer sends again over the next link. Returns whether there was a part.
    public mutating func discardPart() -> Bool {
        defer { incoming = [] }
        return !incoming.isEmpty
    }

    private mutating func queue(_ add: (inout Outbox) -> Void) -> [Frame] {
        let wasEmpty = outbox.isEmpty
        add(&outbox)
        return wasEmpty ? frames(from: 0) : []
    }

    private mutating func frames(from offset: UInt16) -> [Frame] {
        guard let frameLength, isSynchronized else { return [] }
        reported = offset
        return outbox.frames(from: Int(offset), frameLength: frameLength)
    }

    public mutating func receive(_ frame: Frame, at now: Duration = .zero) throws(ChatError) -> Outcome {
        switch frame {
        case .position(let position): return try acknowledge(position)
        case .text(let position, let bytes, let isLast): return try append(bytes, at: position, isLast, now)
        case .goodbye(let sequence): return end(at: sequence)
        case .hello, .proof: throw .malformedFrame
        }
    }

    private var position: Frame { .position(Position(incomingSequence, UInt16(incoming.count))) }

    private mutating func acknowledge(_ position: Position) throws(ChatError) -> Outcome {
        var outcome = Outcome()
        if isSynchronized {
            // A position may be late: it then has no effect.
            if outbox.isOld(position) { return outcome }
            if outbox.isInFirst(position) {
                outcome.isProgress = position.offset > reported
                reported = max(reported, position.offset)
                return outcome
            }
        }
        // While a link is synchronized, only the first message is on its way.
        let arrived = try outbox.acknowledge(position, atMost: isSynchronized ? 1 : .max)
        (outcome.delivered, outcome.isGoodbyeDelivered) = (arrived.texts, arrived.goodbye)
        // A position after a lost link is also progress if it is later than the last one.
        outcome.isProgress = isSynchronized || !outcome.delivered.isEmpty || position.offset > reported
        isSynchronized = true
        outcome.frames = frames(from: position.offset)
        return outcome
    }

    private mutating func append(_ bytes: [UInt8], at position: Position, _ isLast: Bool, _ now: Duration)
        throws(ChatError)
        -> Outcome
    {
        var outcome = Outcome()
        // A repeated frame has no effect.
        guard position.sequence >= incomingSequence else { return outcome }
        let start = Int(position.offset)
        let end = start + bytes.count
        guard position.sequence == incomingSequence, start <= incoming.count else { throw .wrongPosition }
        guard end <= (isLast ? Self.maximumLength : Self.maximumLength - 1) else { throw .wrongLength }
        let rest = bytes.dropFirst(incoming.count - start)
        outcome.isProgress = isLast || !rest.isEmpty
        guard isLast else {
            incoming += rest
            let (frames, since) = unreported ?? (0, now)
            let isReportDue = frames + 1 == Self.reportLimit.frames || now >= since + Self.reportLimit.time
            unreported = isReportDue ? nil : (frames + 1, since)
            if isReportDue { outcome.frames = [self.position] }
            return outcome
        }
        guard end >= incoming.count, incomingSequence < .max else { throw .wrongPosition }
        guard let message = String(validating: incoming + rest, as: UTF8.self) else { throw .notText }
        (incoming, unreported) = ([], nil)
        incomingSequence += 1
        outcome.message = message
        outcome.frames = [self.position]
        return outcome
    }

    /// Processes a goodbye. A goodbye before its turn ends the chat without an acknowledgement: the sender quits, and its other messages do
    /// not arrive. A repeated goodbye means that the sender has not received the acknowledgement.
    private mutating func end(at sequence: UInt32) -> Outcome {
        var outcome = Outcome()
        outcome.isGoodbye = sequence >= incomingSequence - 1
        if sequence == incomingSequence, incoming.isEmpty, sequence < .max { incomingSequence += 1 }
        if sequence < incomingSequence { outcome.frames = [position] }
        return outcome
    }
}

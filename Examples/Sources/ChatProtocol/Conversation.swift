/// The messages between this peer and another one. The value outlives the link: after a lost link, both peers send their positions, and the
/// transfer continues at these positions. So no message is lost, and none arrives twice.
///
/// One message is on its way at a time. The next message starts when the receiver has acknowledged the previous one.
public struct Conversation: Sendable {
    /// The maximum length of a message in bytes of UTF-8.
    public static let maximumLength = 65536

    /// The effects of a received frame.
    public struct Outcome: Sendable, Hashable {
        /// The frames to send.
        public var frames: [Frame] = []
        /// The complete message.
        public var message: String?
        /// The numbers of this peer's messages that the other peer has received.
        public var delivered: [UInt32] = []

        public init() {}

        fileprivate init(frames: [Frame], message: String? = nil, delivered: [UInt32] = []) {
            self.frames = frames
            self.message = message
            self.delivered = delivered
        }
    }

    /// The messages that are not acknowledged. The first one has the number `firstSequence`.
    private var outgoing: [[UInt8]] = []
    private var firstSequence: UInt32 = 1
    private var incomingSequence: UInt32 = 1
    private var incoming: [UInt8] = []
    /// The maximum length of a frame on the current link. Nil: no link.
    private var frameLength: Int?
    /// Whether the other peer has sent its position on this link.
    private var isSynchronized = false

    public init() {}

    public var hasUndelivered: Bool { !outgoing.isEmpty }
    /// The number of the last message of this peer. 0: no message.
    public var lastSequence: UInt32 { firstSequence - 1 + UInt32(outgoing.count) }

    /// Starts a link, and returns this peer's position.
    public mutating func link(frameLength: Int) -> Frame {
        self.frameLength = frameLength
        isSynchronized = false
        return position
    }

    public mutating func unlink() { frameLength = nil }

    /// Adds a message, and returns the frames to send now. The number of the message is ``lastSequence``.
    public mutating func send(_ text: String) throws(ChatError) -> [Frame] {
        let bytes = Array(text.utf8)
        guard 1...Self.maximumLength ~= bytes.count else { throw .wrongLength }
        outgoing.append(bytes)
        return outgoing.count == 1 && isSynchronized ? frames(from: 0) : []
    }

    public mutating func receive(_ frame: Frame) throws(ChatError) -> Outcome {
        switch frame {
        case .position(let position): return try acknowledge(position)
        case .text(let position, let bytes, let isLast): return try append(bytes, at: position, isLast)
        case .hello, .proof, .goodbye: throw .malformedFrame
        }
    }

    private var position: Frame { .position(Position(incomingSequence, UInt16(incoming.count))) }

    private mutating func acknowledge(_ position: Position) throws(ChatError) -> Outcome {
        // The first position of a link is the current one. A later position may be late: it has no effect.
        guard position.sequence >= firstSequence else {
            guard isSynchronized else { throw .wrongPosition }
            return Outcome()
        }
        let count = Int(position.sequence - firstSequence)
        // While a link is synchronized, only the first message is on its way.
        guard count <= (isSynchronized ? min(1, outgoing.count) : outgoing.count),
            Int(position.offset) < (count < outgoing.count ? outgoing[count].count : 1)
        else { throw .wrongPosition }
        if isSynchronized, count == 0 { return Outcome() }
        let delivered = Array(firstSequence..<position.sequence)
        outgoing.removeFirst(count)
        firstSequence = position.sequence
        isSynchronized = true
        return Outcome(frames: frames(from: Int(position.offset)), delivered: delivered)
    }

    private mutating func append(_ bytes: [UInt8], at position: Position, _ isLast: Bool) throws(ChatError) -> Outcome {
        // A frame of an earlier link may arrive after the reconnection. Its bytes are then known.
        guard position.sequence >= incomingSequence else { return Outcome() }
        let start = Int(position.offset)
        let end = start + bytes.count
        guard position.sequence == incomingSequence, start <= incoming.count else { throw .wrongPosition }
        guard end <= (isLast ? Self.maximumLength : Self.maximumLength - 1) else { throw .wrongLength }
        let rest = bytes.dropFirst(incoming.count - start)
        guard isLast else {
            incoming += rest
            return Outcome()
        }
        guard end >= incoming.count, incomingSequence < .max else { throw .wrongPosition }
        guard let message = String(validating: incoming + rest, as: UTF8.self) else { throw .notText }
        incoming = []
        incomingSequence += 1
        return Outcome(frames: [self.position], message: message)
    }

    /// Returns the frames of the first message from this offset.
    private func frames(from offset: Int) -> [Frame] {
        guard let message = outgoing.first, let frameLength else { return [] }
        let step = frameLength - Frame.textHeader
        return stride(from: offset, to: message.count, by: step).map { start in
            let end = min(start + step, message.count)
            return .text(
                Position(firstSequence, UInt16(start)), Array(message[start..<end]), isLast: end == message.count)
        }
    }
}

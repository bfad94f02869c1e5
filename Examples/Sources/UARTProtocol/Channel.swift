/// One end of the link: sends messages in frames, repeats lost frames, and returns each message of the other end once and in order.
///
/// A channel is a value without a clock and without a radio. The caller passes received values and the current time, and sends the values
/// that ``output(at:)`` returns. Both ends start with a new channel for each link. The channel repeats from the first missing frame
/// (go-back-N).
public struct Channel: Sendable {
    /// The number of frames that may be on the way.
    public static let window = 64
    /// The longest message in bytes.
    public static let longestMessage = 4096
    /// The time without progress after which the frames are sent again.
    public static let patience = Duration.seconds(2)
    /// The number of repetitions without progress. Then the other end counts as lost.
    public static let repetitions = 4
    /// The time in which an end must answer: with a greeting, or with the next part of the image.
    public static let answerTime = Duration.seconds(15)
    /// The number of values without a proof of receipt after which an end that notifies gives up the link.
    public static let maximumUnproven = 256

    /// The length of the longest value that the link carries, in bytes.
    public var valueLength: Int
    private var sender = Sender()
    private var receiver = Receiver()
    private var fragments: [UInt8] = []
    private var reply: Frame?
    /// The number of answers after the last confirmed frame, and of the unconfirmed frames of earlier channels. Only a confirmed frame proves
    /// that the values before it have arrived, and are not in the queue of bluetoothd, which has no limit.
    private(set) var unproven = 0

    /// - Parameter earlier: the channel that ends on the same link.
    public init(valueLength: Int, after earlier: Channel? = nil) {
        self.valueLength = valueLength
        if let earlier { unproven = earlier.unproven + earlier.sender.sent }
    }

    /// Whether this end should send a message, because its confirmation is a proof of receipt.
    var needsProof: Bool { isIdle && unproven >= Self.maximumUnproven / 2 }

    /// Whether the other end has confirmed all messages.
    public var isIdle: Bool { sender.frames.isEmpty }
    /// Whether the queue is short. A long transfer adds its next message then, so that other messages need not wait for its end.
    public var hasRoom: Bool { sender.frames.count < 2 * Self.window }
    /// The time of the next repetition. Nil: no frame is on the way.
    public var deadline: Duration? { sender.sent > 0 ? sender.lastProgress + Self.patience : nil }
    /// The number of data bytes in a frame.
    public var capacity: Int { max(1, valueLength - Frame.overhead) }

    /// Queues a message. It is split into frames of the current ``valueLength``.
    ///
    /// - Parameter isCounted: whether ``takeConfirmed()`` counts the message.
    public mutating func send(_ message: [UInt8], isCounted: Bool = false) {
        var rest = message[...]
        repeat {
            let fragment = rest.prefix(capacity)
            rest = rest.dropFirst(capacity)
            sender.frames.append((Array(fragment), isLast: rest.isEmpty, isCounted: isCounted && rest.isEmpty))
        } while !rest.isEmpty
    }

    /// Returns the number of counted messages that the other end has confirmed since the last call.
    mutating func takeConfirmed() -> Int {
        defer { sender.confirmed = 0 }
        return sender.confirmed
    }

    /// Accepts a value of the other end, and returns the message that it completes.
    ///
    /// A value that is not a frame counts as a lost frame. Throws ``ChannelError/messageTooLong`` and ``ChannelError/noProgress``.
    public mutating func receive(_ value: [UInt8], at now: Duration) throws(ChannelError) -> [UInt8]? {
        guard let frame = try? Frame(bytes: value) else {
            reply = receiver.miss() ?? reply
            return nil
        }
        let first = sender.first
        defer { if sender.first != first { unproven = 0 } }
        switch frame.kind {
        case .ack: sender.acknowledge(frame.sequence, frame.receipt, at: now)
        case .nack: try sender.repeatFrames(from: frame.sequence, frame.receipt, at: now)
        case .data(let isLast, let asksForAck, let data):
            let (isNew, answer) = receiver.accept(frame.sequence, frame.receipt, asksForAck: asksForAck)
            reply = answer ?? reply
            guard isNew else { return nil }
            guard fragments.count + data.count <= Self.longestMessage else { throw .messageTooLong }
            fragments += data
            guard isLast else { return nil }
            defer { fragments = [] }
            return fragments
        }
        return nil
    }

    /// Returns the values to send now: the answer to received frames, new frames, and frames to repeat. Throws
    /// ``ChannelError/noProgress``.
    public mutating func output(at now: Duration) throws(ChannelError) -> [[UInt8]] {
        if let deadline, now >= deadline { try sender.repeatFrames(from: sender.first, 0, at: now) }
        defer { reply = nil }
        if reply != nil { unproven += 1 }
        return (reply.map { [$0.bytes] } ?? []) + sender.output(at: now).map(\.bytes)
    }
}

/// The error after which a link cannot be used any more.
public enum ChannelError: Error, Sendable, Hashable, CustomStringConvertible {
    case messageTooLong
    case noProgress
    case noGreeting
    case noProof
    case notificationsEnded

    public var description: String {
        switch self {
        case .messageTooLong: "the other end sent a message of more than \(Channel.longestMessage) bytes"
        case .noProgress: "the other end has not confirmed a frame after \(Channel.repetitions) repetitions"
        case .noGreeting: "the other end has not sent a greeting within \(Channel.answerTime.components.seconds) s"
        case .noProof: "the other end got \(Channel.maximumUnproven) answers, and has not confirmed a frame"
        case .notificationsEnded: "the notifications have ended, but the link has not"
        }
    }
}

/// The frames that the other end has not confirmed.
private struct Sender {
    var frames: [(data: [UInt8], isLast: Bool, isCounted: Bool)] = []
    /// The number of counted messages that the other end has confirmed.
    var confirmed = 0
    /// The sequence number of the first element of `frames`.
    var first: UInt16 = 0
    /// The number of frames that were sent since the last start of a repetition.
    var sent = 0
    private var repetitions = 0
    private(set) var lastProgress = Duration.zero

    /// The receipts of the first elements of `frames`, each from its last repetition. So the confirmation of a frame proves that all earlier
    /// values have arrived.
    private var receipts: [UInt32] = []

    mutating func acknowledge(_ next: UInt16, _ receipt: UInt32, at now: Duration) {
        let count = Int(next &- first)
        // Other numbers are from an old acknowledgement, or from an end that does not follow the protocol.
        guard count > 0, count <= receipts.count, receipts[count - 1] == receipt else { return }
        receipts.removeFirst(count)
        confirmed += frames.prefix(count).count(where: \.isCounted)
        frames.removeFirst(count)
        first = next
        sent = max(0, sent - count)
        repetitions = 0
        lastProgress = now
    }

    mutating func repeatFrames(from next: UInt16, _ receipt: UInt32, at now: Duration) throws(ChannelError) {
        acknowledge(next, receipt, at: now)
        guard next == first, !receipts.isEmpty else { return }
        repetitions += 1
        guard repetitions <= Channel.repetitions else { throw .noProgress }
        sent = 0
        lastProgress = now
    }

    mutating func output(at now: Duration) -> [Frame] {
        if sent == 0 { lastProgress = now }
        let end = min(frames.count, Channel.window)
        defer { sent = max(sent, end) }
        return (sent..<max(sent, end)).map { index in
            let receipt = UInt32.random(in: 0...UInt32.max)
            receipts[index..<min(index + 1, receipts.count)] = [receipt]
            let sequence = first &+ UInt16(truncatingIfNeeded: index)
            // An ACK for each eighth frame keeps the window open. The last frame of a burst needs an ACK, because no other frame follows.
            let asksForAck = index + 1 == end || sequence % 8 == 7
            let kind = Frame.Kind.data(
                isLast: frames[index].isLast, asksForAck: asksForAck, frames[index].data)
            return Frame(kind, sequence, receipt: receipt)
        }
    }
}

/// The sequence number of the next expected frame.
private struct Receiver {
    private var expected: UInt16 = 0
    /// The receipt of the frame before `expected`.
    private var receipt: UInt32 = 0
    private var hasReportedGap = false

    mutating func accept(_ sequence: UInt16, _ receipt: UInt32, asksForAck: Bool) -> (isNew: Bool, answer: Frame?) {
        let distance = Int16(bitPattern: sequence &- expected)
        guard distance <= 0 else { return (false, miss()) }
        // A repetition has a new receipt.
        if distance >= -1 { self.receipt = receipt }
        if distance == 0 {
            expected &+= 1
            hasReportedGap = false
        }
        return (distance == 0, asksForAck ? Frame(.ack, expected, receipt: self.receipt) : nil)
    }

    /// Reports a lost frame once, because the other end then repeats all frames after the gap.
    mutating func miss() -> Frame? {
        guard !hasReportedGap else { return nil }
        hasReportedGap = true
        return Frame(.nack, expected, receipt: receipt)
    }
}

public import OTAFirmware
import OTASigning

/// An image that the central receives. It outlives the link, so that the next link continues at its end.
public struct ImageDownload: Sendable {
    public private(set) var bytes: [UInt8] = []
    /// The size and the SHA-256 of the whole image. Nil: the peripheral has not sent them yet.
    public private(set) var announced: (size: Int, digest: SHA256Digest)?
    /// Whether the peripheral has answered the last request.
    fileprivate var isAnswered = false

    public init() {}

    mutating func request() -> Message {
        isAnswered = false
        return .getImage(offset: UInt32(bytes.count), announced?.digest)
    }

    /// Starts the transfer, or continues it. Throws ``ImageError/unexpectedOffset`` and ``ImageError/unsupportedSize``.
    mutating func begin(size: UInt32, offset: UInt32, _ digest: SHA256Digest) throws(ImageError) {
        guard PNG.sizes.contains(Int(size)) else { throw .unsupportedSize }
        // A second answer would start the transfer again, without an end.
        guard !isAnswered else { throw .unexpectedOffset }
        isAnswered = true
        if offset == 0 { bytes = [] }
        guard offset == bytes.count, offset == 0 || digest == announced?.digest else { throw .unexpectedOffset }
        announced = (Int(size), digest)
    }

    /// Adds bytes. Returns whether the image is complete. Ignores bytes before the answer to the request: they are from an earlier transfer.
    mutating func add(_ data: [UInt8]) throws(ImageError) -> Bool {
        guard isAnswered, let announced else { return false }
        guard bytes.count + data.count <= announced.size else { throw .unexpectedData }
        bytes += data
        guard bytes.count == announced.size else { return false }
        guard SHA256.digest(of: bytes) == announced.digest else { throw .wrongDigest }
        guard PNG.isSupported(bytes) else { throw .noPNG }
        return true
    }
}

/// The reason why a transfer of the image has failed.
public enum ImageError: Error, Sendable, Hashable, CustomStringConvertible {
    case unexpectedOffset, unexpectedData, unsupportedSize, wrongDigest, noPNG, noAnswer

    public var description: String {
        switch self {
        case .unexpectedOffset: "The peripheral sent another part of the image than the requested part."
        case .unexpectedData: "The peripheral sent more data than the size of the image."
        case .unsupportedSize:
            "The size of the image is not from \(PNG.sizes.lowerBound) to \(PNG.sizes.upperBound) bytes."
        case .wrongDigest: "The SHA-256 of the image is wrong."
        case .noPNG: "The image is not a PNG."
        case .noAnswer:
            "The peripheral has not sent a part of the image for \(Channel.answerTime.components.seconds) s."
        }
    }
}

/// The central's end of a conversation, which continues after a cut link. A session is a value: see ``Channel``.
public struct CentralSession: Sendable {
    /// What the central shows to its user.
    public enum Event: Sendable, Hashable {
        case ready
        case text(String)
        /// The state of the peripheral's toggle.
        case toggle(Bool)
        case progress(received: Int, size: Int)
        case image([UInt8], SHA256Digest)
        case imageFailed(ImageError)
        case refused(Refusal)
    }

    /// The unfinished transfer. Nil: no transfer.
    public private(set) var download: ImageDownload?
    private let conversation: UInt64
    private var channel = Channel(valueLength: 0)
    private var outbox = Outbox()
    /// The number of texts that the peripheral has sent in this conversation.
    private var received: UInt32 = 0
    private var hasGreeted = false
    /// Whether the first data frame of this link has arrived.
    private var isServed = false
    /// The time at which an answer of the peripheral is too late. Nil: the central does not wait for an answer.
    private var answerDue: Duration?

    /// - Parameter conversation: a random number, by which the peripheral recognizes this conversation on the next link.
    public init(conversation: UInt64) { self.conversation = conversation }

    /// Starts with a new link, and queues the greeting. After the greeting, the session continues the transfer, and sends the messages that
    /// the peripheral has not received.
    public mutating func begin(valueLength: Int, at now: Duration) {
        channel = Channel(valueLength: valueLength)
        (hasGreeted, isServed) = (false, false)
        answerDue = now + Channel.answerTime
        channel.send(Message.hello(version: Message.version, conversation: conversation, received: received).bytes)
    }

    public var deadline: Duration? { [channel.deadline, answerDue].compactMap(\.self).min() }
    /// The number of texts and requests that the peripheral has not confirmed.
    public var undelivered: Int { outbox.count }
    /// Whether the peripheral has confirmed all messages.
    public var isIdle: Bool { channel.isIdle && undelivered == 0 }

    /// Queues a text. Returns false if it is too long, or if too many messages wait.
    public mutating func send(_ text: String) -> Bool { outbox.add(.text(text)) }
    /// Queues a request. Returns false if too many messages wait.
    public mutating func request(toggle: Bool) -> Bool { outbox.add(.toggle(toggle)) }

    /// Requests the image. Has no effect if a transfer is running.
    public mutating func requestImage(at now: Duration) {
        guard download == nil else { return }
        download = ImageDownload()
        sendRequest(at: now)
    }

    private mutating func sendRequest(at now: Duration) {
        guard hasGreeted, let message = download?.request() else { return }
        channel.send(message.bytes)
        answerDue = now + Channel.answerTime
    }

    /// Call this method at the ``deadline``. Throws ``ChannelError/noGreeting``.
    public mutating func wake(at now: Duration) throws(ChannelError) -> [Event] {
        guard let answerDue, now >= answerDue else { return [] }
        guard hasGreeted else { throw .noGreeting }
        endTransfer()
        return [.imageFailed(.noAnswer)]
    }

    private mutating func endTransfer() { (download, answerDue) = (nil, nil) }

    /// Returns the values to write to RX now.
    public mutating func output(at now: Duration) throws(ChannelError) -> [[UInt8]] {
        if hasGreeted { outbox.move(to: &channel) }
        return try channel.output(at: now)
    }

    /// Accepts a value that the peripheral has notified on TX.
    public mutating func receive(_ value: [UInt8], at now: Duration) throws(ChannelError) -> [Event] {
        guard isForThisCentral(value) else { return [] }
        let bytes = try channel.receive(value, at: now)
        outbox.confirm(in: &channel)
        guard let bytes else { return [] }
        do throws(Refusal) { return try events(of: Message(bytes: bytes), at: now) } catch { return [.refused(error)] }
    }

    /// Whether a value is not a data frame of another central's link. The notifications go to all subscribed centrals. The first data frame
    /// for this central is the start of a greeting with the number of its conversation, a greeting in another version, or a refusal.
    ///
    /// An ACK for another central has another receipt, so it confirms nothing.
    private mutating func isForThisCentral(_ value: [UInt8]) -> Bool {
        guard !isServed, let frame = try? Frame(bytes: value), case .data(_, _, let data) = frame.kind else {
            return true
        }
        let greeting = Message.helloAck(
            version: Message.version, conversation: conversation, toggle: false, received: 0
        ).bytes.prefix(9)  // at the minimum MTU, a frame has 9 bytes of data
        isServed =
            frame.sequence == 0
            && (data.starts(with: greeting) || data.first == Message.refusal(.malformed).bytes[0]
                || data.first == greeting[0] && data.dropFirst().first != Message.version)
        return isServed
    }

    private mutating func events(of message: Message, at now: Duration) throws(Refusal) -> [Event] {
        if case .helloAck(let version, let number, let toggle, let received) = message {
            guard version == Message.version else { throw .unknownVersion }
            guard number == conversation else { return [] }
            guard !hasGreeted else { throw .malformed }
            (hasGreeted, answerDue) = (true, nil)
            outbox.resume(after: received)
            sendRequest(at: now)
            return [.ready, .toggle(toggle)]
        }
        if case .refusal(let refusal) = message {
            // Before the greeting, only the limit of the greeting is running, and there is no request on this link.
            if hasGreeted, refusal == .noImage { endTransfer() }
            return [.refused(refusal)]
        }
        guard hasGreeted else { throw .malformed }
        switch message {
        case .text(let text):
            received &+= 1
            return [.text(text)]
        case .toggle(let on): return [.toggle(on)]
        case .image(let size, let offset, let digest):
            return transfer(at: now) { download throws(ImageError) in
                try download.begin(size: size, offset: offset, digest)
                return false
            }
        case .imageData(let data) where !data.isEmpty:
            return transfer(at: now) { download throws(ImageError) in try download.add(data) }
        default: throw .malformed
        }
    }

    /// Runs a step of the transfer, which returns whether the image is complete. Data after a failed transfer and data before the answer to
    /// the request are ignored, and give the peripheral no more time.
    private mutating func transfer(
        at now: Duration, _ step: (inout ImageDownload) throws(ImageError) -> Bool
    ) -> [Event] {
        guard var current = download else { return [] }
        do throws(ImageError) {
            let isComplete = try step(&current)
            guard current.isAnswered, let announced = current.announced else { return [] }
            (download, answerDue) = (current, now + Channel.answerTime)
            let progress = Event.progress(received: current.bytes.count, size: announced.size)
            guard isComplete else { return [progress] }
            endTransfer()
            return [progress, .image(current.bytes, announced.digest)]
        } catch {
            endTransfer()
            return [.imageFailed(error)]
        }
    }
}

public import OTAFirmware

/// The image of a peripheral, with its SHA-256.
public struct ServedImage: Sendable, CustomStringConvertible {
    public let bytes: [UInt8]
    public let digest: SHA256Digest

    public init(_ bytes: [UInt8], _ digest: SHA256Digest) {
        self.bytes = bytes
        self.digest = digest
    }

    public var description: String { "\(bytes.count) bytes, SHA-256 \(digest.description.prefix(16))…" }
}

/// The peripheral's end of a conversation. It serves one central at a time, because BlueZ sends each notification to all subscribed centrals.
/// A session is a value: see ``Channel``.
public struct PeripheralSession: Sendable {
    /// What the peripheral shows to its user.
    public enum Event: Sendable, Hashable {
        case hello
        case text(String)
        case toggle(Bool)
        case sendingImage(offset: Int)
        /// The central has confirmed the whole image.
        case sentImage
        case refused(Refusal)
        /// The central has started another conversation. It has not confirmed this number of texts of the earlier one.
        case replaced(undelivered: Int)
    }

    /// A conversation, which continues when its central has a new link.
    private struct Conversation {
        let number: UInt64
        /// The number of texts and requests of the toggle that the central has sent.
        var received: UInt32 = 0
        var outbox = Outbox()
        /// Whether the next link needs the memory of this conversation. Otherwise the greeting of the next link has all that is needed.
        var hasMessages: Bool { received > 0 || outbox.count > 0 }
    }

    /// The number of earlier conversations that the peripheral remembers. A conversation without messages is not one of them: a central
    /// without an identity could otherwise displace all others with greetings.
    public static let memory = 8
    /// A central that has been idle for this time loses its place when another central writes.
    public static let idleTime = Duration.seconds(60)

    public private(set) var toggle = false
    private let image: ServedImage?
    /// The connection of the central that has written first. Nil: no central has written.
    public private(set) var connection: Int?
    private var channel = Channel(valueLength: 0)
    private var greetingDue: Duration?
    /// The time of the last message of the central, or of its last value while the peripheral had frames on the way.
    private var lastActivity = Duration.zero
    /// The conversations of earlier links. The last element is the newest one.
    private var conversations: [Conversation] = []
    /// The conversation of the current link. Nil: the central has not greeted.
    private var current: Conversation?
    /// Answers that wait for room in the channel.
    private var answers: [Message] = []
    /// The offset of the next image byte to queue. Nil: no transfer.
    private var offset: Int?

    public init(image: ServedImage?) { self.image = image }

    // MARK: - Links

    /// Starts with a link, or continues it. Returns false if the connection of another central has not ended.
    public mutating func admit(_ connection: Int, valueLength: Int, at now: Duration) -> Bool {
        if self.connection == nil {
            self.connection = connection
            channel = Channel(valueLength: valueLength)
            greetingDue = now + Channel.answerTime
            lastActivity = now
        }
        guard self.connection == connection else { return false }
        channel.valueLength = valueLength
        return true
    }

    /// Whether the central has been idle for ``idleTime``. The program can end its link then, and admit another central.
    public func isIdle(at now: Duration) -> Bool { connection != nil && now >= lastActivity + Self.idleTime }

    /// Ends a link. The messages that the central has not confirmed wait for the next link.
    public mutating func end(_ connection: Int) {
        guard connection == self.connection else { return }
        endConversation()
        (self.connection, greetingDue) = (nil, nil)
    }

    private mutating func endConversation() {
        if let current, current.hasMessages { conversations = (conversations + [current]).suffix(Self.memory) }
        (current, answers, offset) = (nil, [], nil)
    }

    /// The number of texts that the central of this link has not confirmed. 0 before its greeting: the texts are for another central.
    public var undelivered: Int { current?.outbox.count ?? 0 }
    public var deadline: Duration? {
        connection == nil ? nil : [channel.deadline, greetingDue].compactMap(\.self).min()
    }

    // MARK: - Messages

    /// Sends a text. Returns false before the central's greeting, because the central may not be subscribed yet, and if the text is too long
    /// or too many texts wait.
    public mutating func send(_ text: String) -> Bool { current?.outbox.add(.text(text)) ?? false }

    /// Changes the toggle, and reports its state to the central.
    public mutating func set(toggle: Bool) {
        self.toggle = toggle
        if current != nil { answer(.toggle(toggle)) }
    }

    /// Queues an answer. It replaces a waiting answer of the same kind. So a central that requests much and confirms nothing cannot fill the
    /// memory.
    private mutating func answer(_ message: Message) {
        answers.removeAll { $0.bytes[0] == message.bytes[0] }
        answers.append(message)
    }

    /// Accepts a value that the admitted central has written to RX.
    public mutating func receive(_ value: [UInt8], at now: Duration) throws(ChannelError) -> [Event] {
        var events = restart(for: value, at: now).map { [$0] } ?? []
        if !channel.isIdle { lastActivity = now }
        let bytes = try channel.receive(value, at: now)
        current?.outbox.confirm(in: &channel)
        if let bytes {
            lastActivity = now
            do throws(Refusal) {
                events.append(try handle(Message(bytes: bytes)))
            } catch {
                answer(.refusal(error))
                events.append(.refused(error))
            }
        }
        if let offset, offset == image?.bytes.count, channel.isIdle, answers.isEmpty {
            self.offset = nil
            events.append(.sentImage)
        }
        return events
    }

    /// Starts a new channel if the value is the greeting of another program on the same link. A killed program leaves its link, and
    /// bluetoothd does not report the end of its subscription while other programs of the central are subscribed. The first frame of a link
    /// with another conversation is not a repetition.
    private mutating func restart(for value: [UInt8], at now: Duration) -> Event? {
        guard let frame = try? Frame(bytes: value), frame.sequence == 0, case .data(true, _, let data) = frame.kind,
            case .hello(_, let number, _) = try? Message(bytes: data), let current, number != current.number
        else { return nil }
        endConversation()
        channel = Channel(valueLength: channel.valueLength, after: channel)
        greetingDue = now + Channel.answerTime
        return .replaced(undelivered: current.outbox.count)
    }

    private mutating func handle(_ message: Message) throws(Refusal) -> Event {
        if case .hello(let version, let number, let received) = message {
            guard version == Message.version else { throw .unknownVersion }
            guard current == nil else { throw .malformed }
            greetingDue = nil
            resume(number, after: received)
            return .hello
        }
        guard current != nil else { throw .malformed }
        switch message {
        case .text(let text):
            current?.received &+= 1
            return .text(text)
        case .toggle(let on):
            current?.received &+= 1
            set(toggle: on)
            return .toggle(on)
        case .getImage(let start, let digest):
            guard let image else { throw .noImage }
            // The central may have bytes of an older image.
            let start = digest == image.digest && start <= image.bytes.count ? Int(start) : 0
            offset = start
            answer(.image(size: UInt32(image.bytes.count), offset: UInt32(start), image.digest))
            return .sendingImage(offset: start)
        default: throw .malformed
        }
    }

    private mutating func resume(_ number: UInt64, after received: UInt32) {
        let index = conversations.firstIndex { $0.number == number }
        var resumed = index.map { conversations.remove(at: $0) } ?? Conversation(number: number)
        resumed.outbox.resume(after: received)
        current = resumed
        answer(
            .helloAck(version: Message.version, conversation: number, toggle: toggle, received: resumed.received))
    }

    /// Returns the values to notify on TX now. Call this method also at the ``deadline``. Throws ``ChannelError/noGreeting``,
    /// ``ChannelError/noProgress`` and ``ChannelError/noProof``.
    public mutating func output(at now: Duration) throws(ChannelError) -> [[UInt8]] {
        guard connection != nil else { return [] }
        if let greetingDue, now >= greetingDue { throw .noGreeting }
        if channel.unproven >= Channel.maximumUnproven { throw .noProof }
        // The state of the toggle may be sent again at any time.
        if current != nil, channel.needsProof { answer(.toggle(toggle)) }
        while channel.hasRoom, !answers.isEmpty { channel.send(answers.removeFirst().bytes) }
        current?.outbox.move(to: &channel)
        // One byte of the message is its kind.
        while let start = offset, let bytes = image?.bytes, start < bytes.count, channel.hasRoom {
            let chunk = bytes[start...].prefix(max(1, channel.capacity - 1))
            channel.send(Message.imageData(Array(chunk)).bytes)
            offset = start + chunk.count
        }
        return try channel.output(at: now)
    }
}

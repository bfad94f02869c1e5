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

/// The peripheral's end of one link: answers the messages of the central. A session is a value: see ``Channel``.
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
    }

    public private(set) var toggle: Bool
    private let image: ServedImage?
    private var channel: Channel
    private var hasGreeted = false
    /// The offset of the next image byte to queue. Nil: no transfer.
    private var offset: Int?

    public init(valueLength: Int, toggle: Bool, image: ServedImage?) {
        channel = Channel(valueLength: valueLength)
        self.toggle = toggle
        self.image = image
    }

    public var valueLength: Int {
        get { channel.valueLength }
        set { channel.valueLength = newValue }
    }
    public var deadline: Duration? { channel.deadline }

    /// Sends a text. It has no effect before the central's greeting, because the central may not be subscribed yet.
    public mutating func send(_ text: String) {
        if hasGreeted { channel.send(Message.text(text).bytes) }
    }

    /// Changes the toggle, and reports its state to the central.
    public mutating func set(toggle: Bool) {
        self.toggle = toggle
        if hasGreeted { channel.send(Message.toggle(toggle).bytes) }
    }

    /// Accepts a value that the central has written to RX.
    public mutating func receive(_ value: [UInt8], at now: Duration) throws(ChannelError) -> [Event] {
        var events: [Event] = []
        if let bytes = try channel.receive(value, at: now) {
            do throws(Refusal) {
                events.append(contentsOf: try answer(Message(bytes: bytes)))
            } catch {
                channel.send(Message.refusal(error).bytes)
                events.append(.refused(error))
            }
        }
        if let offset, offset == image?.bytes.count, channel.isIdle {
            self.offset = nil
            events.append(.sentImage)
        }
        return events
    }

    private mutating func answer(_ message: Message) throws(Refusal) -> [Event] {
        if case .hello(let version) = message {
            guard version == Message.version else { throw .unknownVersion }
            hasGreeted = true
            channel.send(Message.helloAck(version: Message.version, toggle: toggle).bytes)
            return [.hello]
        }
        guard hasGreeted else { throw .malformed }
        switch message {
        case .text(let text): return [.text(text)]
        case .toggle(let on):
            set(toggle: on)
            return [.toggle(on)]
        case .getImage(let start, let digest):
            guard let image else { throw .noImage }
            // The central may have bytes of an older image.
            let start = digest == image.digest && start <= image.bytes.count ? Int(start) : 0
            offset = start
            channel.send(
                Message.image(size: UInt32(image.bytes.count), offset: UInt32(start), image.digest).bytes)
            return [.sendingImage(offset: start)]
        default: throw .malformed
        }
    }

    /// Returns the values to notify on TX now.
    public mutating func output(at now: Duration) throws(ChannelError) -> [[UInt8]] {
        // One byte of the message is its kind.
        while let start = offset, let bytes = image?.bytes, start < bytes.count, channel.hasRoom {
            let chunk = bytes[start...].prefix(max(1, channel.capacity - 1))
            channel.send(Message.imageData(Array(chunk)).bytes)
            offset = start + chunk.count
        }
        return try channel.output(at: now)
    }
}

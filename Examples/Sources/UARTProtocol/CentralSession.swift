public import OTAFirmware
import OTASigning

/// An image that the central receives. It outlives the link, so that the next link continues at its end.
public struct ImageDownload: Sendable {
    public private(set) var bytes: [UInt8] = []
    /// The size and the SHA-256 of the whole image. Nil: the peripheral has not sent them yet.
    public private(set) var announced: (size: Int, digest: SHA256Digest)?

    public init() {}

    var request: Message {
        .getImage(offset: UInt32(bytes.count), announced?.digest)
    }

    /// Starts the transfer, or continues it. Throws ``ImageError/unexpectedOffset`` and ``ImageError/unsupportedSize``.
    mutating func begin(size: UInt32, offset: UInt32, _ digest: SHA256Digest) throws(ImageError) {
        guard PNG.sizes.contains(Int(size)) else { throw .unsupportedSize }
        if offset == 0 { bytes = [] }
        guard offset == bytes.count, offset == 0 || digest == announced?.digest else { throw .unexpectedOffset }
        announced = (Int(size), digest)
    }

    /// Adds bytes. Returns whether the image is complete. Ignores bytes before the announcement: they are from an earlier transfer.
    mutating func add(_ data: [UInt8]) throws(ImageError) -> Bool {
        guard let announced else { return false }
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
    case unexpectedOffset, unexpectedData, unsupportedSize, wrongDigest, noPNG

    public var description: String {
        switch self {
        case .unexpectedOffset: "The peripheral sent another part of the image than the requested part."
        case .unexpectedData: "The peripheral sent more data than the size of the image."
        case .unsupportedSize:
            "The size of the image is not from \(PNG.sizes.lowerBound) to \(PNG.sizes.upperBound) bytes."
        case .wrongDigest: "The SHA-256 of the image is wrong."
        case .noPNG: "The image is not a PNG."
        }
    }
}

/// The central's end of one link. It starts with the greeting. A session is a value: see ``Channel``.
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
    private var channel: Channel

    /// Queues the greeting.
    ///
    /// - Parameter download: an unfinished transfer of an earlier link. The session continues it after the greeting.
    public init(valueLength: Int, continuing download: ImageDownload? = nil) {
        channel = Channel(valueLength: valueLength)
        self.download = download
        channel.send(Message.hello(version: Message.version).bytes)
    }

    public var deadline: Duration? { channel.deadline }
    public mutating func output(at now: Duration) throws(ChannelError) -> [[UInt8]] { try channel.output(at: now) }

    public mutating func send(_ text: String) { channel.send(Message.text(text).bytes) }
    public mutating func request(toggle: Bool) { channel.send(Message.toggle(toggle).bytes) }

    /// Requests the image. Has no effect if a transfer is running.
    public mutating func requestImage() {
        guard download == nil else { return }
        let new = ImageDownload()
        download = new
        channel.send(new.request.bytes)
    }

    /// Accepts a value that the peripheral has notified on TX.
    public mutating func receive(_ value: [UInt8], at now: Duration) throws(ChannelError) -> [Event] {
        guard let bytes = try channel.receive(value, at: now) else { return [] }
        do throws(Refusal) { return try events(of: Message(bytes: bytes)) } catch { return [.refused(error)] }
    }

    private mutating func events(of message: Message) throws(Refusal) -> [Event] {
        switch message {
        case .helloAck(let version, let toggle):
            guard version == Message.version else { throw .unknownVersion }
            if let download { channel.send(download.request.bytes) }
            return [.ready, .toggle(toggle)]
        case .text(let text): return [.text(text)]
        case .toggle(let on): return [.toggle(on)]
        case .image(let size, let offset, let digest):
            return transfer { download throws(ImageError) in
                try download.begin(size: size, offset: offset, digest)
                return false
            }
        case .imageData(let data): return transfer { download throws(ImageError) in try download.add(data) }
        case .refusal(let refusal):
            if refusal == .noImage { download = nil }
            return [.refused(refusal)]
        case .hello, .getImage: throw .malformed
        }
    }

    /// Runs a step of the transfer, which returns whether the image is complete. Data after a failed transfer is ignored.
    private mutating func transfer(_ step: (inout ImageDownload) throws(ImageError) -> Bool) -> [Event] {
        guard var current = download else { return [] }
        do throws(ImageError) {
            let isComplete = try step(&current)
            guard let announced = current.announced else { return [] }
            download = isComplete ? nil : current
            let progress = Event.progress(received: current.bytes.count, size: announced.size)
            return isComplete ? [progress, .image(current.bytes, announced.digest)] : [progress]
        } catch {
            download = nil
            return [.imageFailed(error)]
        }
    }
}

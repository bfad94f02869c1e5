import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate

/// A session that pushes the example bundle to a ``PlayedDevice``, and an encoder of the test. All events follow each other at once.
struct PlayedWorld {
    var device = PlayedDevice(image: ExampleUpdate.image)
    var valueLength = 62
    /// Encodes: by default to a third of the size, in chunks of 200 image bytes.
    var encode: (EncodingRequest) -> Result<EncodedImage, EncodingFailure>? = { .success(Self.stream($0.offset, 3)) }
    /// The encoder never answers.
    var encoderHangs = false

    /// The number of links that open. All later attempts to connect fail; nil: every attempt opens a link.
    var openLinks: Int?

    /// The number of attempts to connect.
    private(set) var connects = 0
    private(set) var requests: [EncodingRequest] = []
    private(set) var reports: [UpdateProgress] = []
    private(set) var outcome: Result<UpdateReport, UpdateError>?
    private var session: UpdateSession
    private var now = Duration.zero
    private var events: [UpdateEvent] = [.started]
    private var stream: EncodedImage?

    init(_ options: UpdateOptions = UpdateOptions()) throws {
        session = UpdateSession(try ProfileConversation(.push(try ExampleUpdate.bundle(), options)), seed: 1)
    }

    /// Returns a stream of the example image from `offset`, `ratio` times smaller, in chunks of `length` image bytes.
    static func stream(_ offset: Int, _ ratio: Int, chunk length: Int = 200) -> EncodedImage {
        var encoded = EncodedImage(offset: offset, bytes: [], chunks: [])
        var end = offset
        while end < ExampleUpdate.image.count {
            let next = min(end + length, ExampleUpdate.image.count)
            let count = max(1, (next - end) / ratio)
            encoded.bytes += (0..<count).map { UInt8(truncatingIfNeeded: end + $0 * 7) }
            encoded.chunks.append(EncodedImage.Chunk(imageEnd: next, streamEnd: encoded.bytes.count))
            end = next
        }
        return encoded
    }

    static func base(
        _ number: UInt8, size: Int = 500, manifest: SHA256Digest? = nil, version: String? = nil, isNamed: Bool = false
    ) -> BaseImage {
        var base = BaseImage(
            id: Int(number), size: size, digest: SHA256.digest(of: [number]), manifestDigest: manifest,
            product: version == nil ? nil : ProductName("demo"), version: version.flatMap { SemanticVersion($0) },
            name: "base-\(number)")
        base.isNamed = isNamed
        return base
    }

    var report: UpdateReport? { try? outcome?.get() }
    var error: UpdateError? { if case .failure(let error) = outcome { error } else { nil } }
    var notes: [String] { reports.compactMap { if case .note(let text) = $0 { text } else { nil } } }

    /// Runs until the session has an outcome.
    mutating func play() {
        var steps = 0
        while outcome == nil, steps < 20_000 {
            steps += 1
            if events.isEmpty {
                guard let deadline = session.deadline else { return }
                now = max(now, deadline)
                events.append(.deadlinePassed)
            }
            perform(session.handle(events.removeFirst(), at: now))
        }
    }

    private mutating func perform(_ actions: [UpdateAction]) {
        for action in actions {
            switch action {
            case .connect, .find:
                connects += 1
                if let openLinks, connects > openLinks {
                    events.append(.linkDown(LinkError(.lost, "no answer")))
                    break
                }
                device.connect()
                events.append(
                    .linkUp(
                        LinkProperties(
                            channels: [
                                ProfileChannel.info, ProfileChannel.control, ProfileChannel.data,
                                ProfileChannel.progress, ProfileChannel.version,
                            ], maximumValueLength: valueLength)))
            case .disconnect: loseLink()
            case .link(let command): perform(command)
            case .encode(let request):
                requests.append(request)
                if encoderHangs { break }
                let result = encode(request)
                if case .success(let image)? = result { stream = image }
                events.append(.encoded(request, result))
            case .acceptCandidate, .stage: break
            case .report(let progress): reports.append(progress)
            case .finish(let report): outcome = .success(report)
            case .fail(let error): outcome = .failure(error)
            }
        }
    }

    private mutating func loseLink() {
        events.removeAll { if case .link = $0 { true } else { false } }
        events.append(.linkDown(LinkError(.lost, "gone")))
    }

    private mutating func perform(_ command: LinkCommand) {
        switch command {
        case .subscribe(let channel): events.append(.link(.subscribed(channel)))
        case .read(ProfileChannel.info): events.append(.link(.value(device.info, ProfileChannel.info)))
        case .read(ProfileChannel.progress): events.append(.link(.value(device.progress, ProfileChannel.progress)))
        case .read(let channel): events.append(.link(.value(Array(device.version.utf8), channel)))
        case .write(let bytes, let channel):
            guard !device.losesLink(at: bytes) else { return loseLink() }
            events.append(.link(.written(channel)))
            events.append(.link(.notified(device.answer(bytes), channel)))
        case .send(let values, _):
            for value in values where !device.losesLink {
                if let progress = device.take(value, stream) {
                    events.append(.link(.notified(progress, ProfileChannel.progress)))
                }
                if device.losesLink { loseLink() }
            }
        }
    }
}

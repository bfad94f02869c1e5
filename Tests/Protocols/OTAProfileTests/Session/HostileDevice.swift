import OTAFirmware
import OTAProfile
import OTAUpdate

/// A device that follows the profile, except for the faults of its temper. A seed determines all its random choices.
struct HostileDevice {
    /// An event that happens after a delay.
    struct Happening {
        var delay: Duration
        var event: UpdateEvent
    }

    private let release: HostileRelease
    private let temper: HostileTemper
    private var random: SplitMix64

    private var window = 64
    private var longestValue = 512
    private var runsNew = false
    private var isOnTrial = false
    private var isApplied = false
    private var bootedAt = Duration.zero
    private var held = 0

    private var state: UInt8 = 0
    private var next: UInt16 = 0
    private var object = TransferObject.envelope
    private var offset = 0
    /// The stream of the open object, which is an encoded image. The device has accepted its first `offset` bytes.
    private var stream: HostileStream?
    /// The size of the largest base that the device announces; nil: it offers no encodings.
    private var largestBase: UInt32?
    /// The position in the answer to the last BEGIN, which becomes outdated.
    private var first: [UInt8] = []

    init(_ release: HostileRelease, _ temper: HostileTemper, seed: UInt64) {
        self.release = release
        self.temper = temper
        random = SplitMix64(seed: seed)
        isOnTrial = happens(temper.isFoundOnTrial)
        runsNew = isOnTrial || happens(temper.isFoundUpdated)
        held = happens(0.2) ? Int.random(in: 0...release.image.count, using: &random) : 0
    }

    private mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && Double.random(in: 0..<1, using: &random) < probability
    }

    private mutating func soon() -> Duration { .milliseconds(Int.random(in: 1...20, using: &random)) }

    // MARK: Links

    mutating func connect(at now: Duration) -> Happening {
        let delay = happens(temper.tardiness) ? Duration.seconds(Int.random(in: 1...50, using: &random)) : soon()
        if happens(temper.unreachable) {
            let codes: [LinkError.Code] = [.timedOut, .lost, .refused, .noSuchDevice, .notPermitted]
            return Happening(delay: delay, event: .linkDown(LinkError(codes[Int(random.next() % 5)], "no link")))
        }
        if isApplied { (isApplied, isOnTrial, runsNew, bootedAt) = (false, release.isTried, true, now) }
        if isOnTrial, now - bootedAt > .seconds(HostileRelease.trialSeconds) { (isOnTrial, runsNew) = (false, false) }
        state = isOnTrial ? 5 : 0
        (next, stream) = (0, nil)
        largestBase = temper.offersEncodings && !happens(temper.fickleness * 0.2) ? .max : nil
        if largestBase != nil, happens(max(temper.fickleness, temper.lies)) {
            largestBase = [0, 1, 401, 402, .max][Int(random.next() % 5)]
        }
        window = happens(temper.fickleness) ? [1, 2, 7, 256, 300, 2047][Int(random.next() % 6)] : temper.window
        longestValue = happens(temper.fickleness) ? Int.random(in: 20...512, using: &random) : 512
        let value = happens(temper.fickleness) ? Int.random(in: 20...514, using: &random) : temper.valueLength
        var channels: Set = [
            ProfileChannel.info, ProfileChannel.control, ProfileChannel.data, ProfileChannel.progress,
            ProfileChannel.version,
        ]
        if happens(0.3) { channels.insert(ProfileChannel.battery) }
        return Happening(
            delay: delay, event: .linkUp(LinkProperties(channels: channels, maximumValueLength: value)))
    }

    /// Executes a command and returns the resulting events in order.
    mutating func obey(_ command: LinkCommand) -> [Happening] {
        var told: [UpdateEvent] = []
        switch command {
        case .subscribe(let channel): told = [.link(.subscribed(channel))]
        case .read(let channel): told = [.link(.value(value(of: channel), channel))]
        case .write(let bytes, let channel):
            told = [.link(.written(channel))]
            if channel == ProfileChannel.control, let answer = answer(bytes) {
                told.append(.link(.notified(answer, channel)))
            }
        case .send(let chunks, _): for chunk in chunks where !happens(temper.gaps) { told += take(chunk) }
        }
        var happenings: [Happening] = []
        for event in told { happenings += spoil(event) }
        if happens(temper.resets) { held = Int.random(in: 0...held, using: &random) }
        if happens(temper.breaks) {
            happenings.append(Happening(delay: soon(), event: .linkDown(LinkError(.lost, "out of range"))))
        }
        return happenings
    }

    /// Applies the faults to one event: it is dropped, delayed, repeated or changed.
    private mutating func spoil(_ event: UpdateEvent) -> [Happening] {
        var event = event
        guard case .link(let told) = event else { return [Happening(delay: .zero, event: event)] }
        switch told {
        case .notified(let bytes, let channel):
            if happens(temper.silence) { return [] }
            if happens(temper.garbage) { event = .link(.notified(mutation(of: bytes), channel)) }
            if happens(temper.lies) { event = .link(.notified(lie(bytes, on: channel), channel)) }
        case .value(let bytes, let channel):
            if happens(temper.silence) { return [] }
            if happens(temper.garbage) { event = .link(.value(mutation(of: bytes), channel)) }
            if happens(temper.refusals) {
                event = .link(.refused(LinkError(happens(0.2) ? .notPermitted : .refused, "no"), channel))
            }
        case .subscribed(let channel), .written(let channel):
            if happens(temper.silence) { return [] }
            if happens(temper.refusals) { event = .link(.refused(LinkError(.refused, "no"), channel)) }
        case .refused: break
        }
        let delay =
            happens(temper.tardiness) ? Duration.milliseconds(Int.random(in: 1...60_000, using: &random)) : .zero
        var happenings = [Happening(delay: delay, event: event)]
        if happens(temper.storms) {
            for _ in 0..<Int.random(in: 1...50, using: &random) {
                happenings.append(
                    Happening(delay: happens(0.1) ? soon() : .zero, event: happens(0.3) ? event : progressEvent))
            }
        }
        return happenings
    }

    private mutating func mutation(of bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        switch random.next() % 4 {
        case 0:
            bytes = (0..<Int.random(in: 0...20, using: &random)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        case 1: bytes.removeLast(min(bytes.count, Int.random(in: 1...4, using: &random)))
        case 2: bytes.append(UInt8(truncatingIfNeeded: random.next()))
        default:
            guard !bytes.isEmpty else { break }
            bytes[Int.random(in: 0..<bytes.count, using: &random)] ^= 1 << UInt8(random.next() % 8)
        }
        return bytes
    }

    /// Returns a well-formed value with a false status, state or position.
    private mutating func lie(_ bytes: [UInt8], on channel: Channel) -> [UInt8] {
        var bytes = bytes
        let place = channel == ProfileChannel.progress ? 2 : 3
        guard bytes.count == place + 10, happens(0.6) else {
            if bytes.count >= 3 { bytes[place - 1] = UInt8.random(in: 0...19, using: &random) }
            return bytes
        }
        // A rewind without a loss, a random offset with its correct CRC, an offset outside the object, or an outdated position.
        let size = stream?.bytes.count ?? release.bytes(of: object).count
        let there = Int.random(in: 0...size, using: &random)
        switch random.next() % 5 {
        case 3: return bytes.prefix(place) + position(next: next, offset: [size + 1, Int(UInt32.max)][there % 2])
        case 4 where !first.isEmpty: return bytes.prefix(place) + first
        case 0: return bytes.prefix(place) + position(next: next &+ 4096, offset: offset)
        case 1: return bytes.prefix(place) + position(next: next, offset: there)
        default: return bytes.prefix(place) + position(next: UInt16(truncatingIfNeeded: random.next()), offset: there)
        }
    }

    // MARK: Values of the device

    private func position(next: UInt16, offset: Int) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(next)
        writer.write(UInt32(clamping: offset))
        if let stream {
            writer.write(stream.checksum(upTo: offset))
        } else {
            writer.write(offset <= release.bytes(of: object).count ? release.checksum(of: object, upTo: offset) : 0)
        }
        return writer.bytes
    }

    private var isOpen: Bool { state == 1 || state == 3 }
    private var here: [UInt8] {
        isOpen ? position(next: next, offset: offset) : position(next: next, offset: 0)
    }
    private var progressEvent: UpdateEvent { .link(.notified([state, 0] + here, ProfileChannel.progress)) }

    private mutating func value(of channel: Channel) -> [UInt8] {
        switch channel {
        case ProfileChannel.info:
            return release.info(
                window: window, longestValue: longestValue, runsNew: runsNew, held: held,
                counter: happens(temper.fickleness * 0.1) ? 9 : 7, largestBase: largestBase)
        case ProfileChannel.version:
            return Array((happens(temper.lies * 0.2) != runsNew ? release.version : "1.0.0").utf8)
        case ProfileChannel.progress:
            return [happens(temper.lies * 0.2) ? UInt8.random(in: 0...6, using: &random) : state, 0] + here
        default: return [UInt8.random(in: 0...100, using: &random)]
        }
    }

    // MARK: The profile

    private mutating func take(_ chunk: [UInt8]) -> [UpdateEvent] {
        guard isOpen, chunk.count >= 3 else { return [] }
        let ahead = (UInt16(chunk[0]) | UInt16(chunk[1]) << 8) &- next
        if ahead == 0, offset + chunk.count - 2 <= stream?.bytes.count ?? release.bytes(of: object).count {
            if stream != nil, happens(temper.undecodable) {
                (state, stream) = (2, nil)
                return [.link(.notified([state, 19] + here, ProfileChannel.progress))]
            }
            next &+= 1
            offset += chunk.count - 2
            if state == 3 { held = stream?.imageEnd(at: offset) ?? offset }
            return Int(next) % max(1, window / 4) == 0 ? [progressEvent] : []
        }
        guard ahead < 2048 else { return [] }
        next &+= 4096
        return [progressEvent]
    }

    private mutating func answer(_ request: [UInt8]) -> [UInt8]? {
        guard request.count >= 2 else { return nil }
        let head = [0x80 | request[0], request[1]]
        if happens(temper.business) { return head + [4] }
        switch request[0] {
        case 1: return head + begin(request)
        case 2:
            guard isOpen else { return head + [3] }
            if (UInt16(request[2]) | UInt16(request[3]) << 8) &- next &- 1 < 2047 { next &+= 4096 }
            return head + [0] + here
        case 3:
            let isComplete = stream == nil ? offset == release.bytes(of: object).count : held == release.image.count
            guard isOpen, isComplete else { return head + [3] }
            if state == 3, happens(temper.spoiltImages) {
                (state, held) = (2, 0)
                return head + [16]
            }
            state += 1
            return head + [0]
        case 4:
            isApplied = state == 4
            return head + [isApplied ? 0 : 3]
        case 5:
            guard state == 5 else { return head + [3] }
            (isOnTrial, state, held) = (false, 0, 0)
            return head + [0]
        case 6:
            if isOnTrial { (isOnTrial, runsNew) = (false, false) }
            (state, held) = (0, 0)
            return head + [0]
        default: return head + [0]
        }
    }

    private mutating func begin(_ request: [UInt8]) -> [UInt8] {
        let isEncoded = request.count == 20 && request[2] == 3 && largestBase != nil
        guard state != 5, isEncoded || request.count == 19,
            let object = isEncoded ? .image : TransferObject(rawValue: request[2])
        else { return [3] }
        guard object == .envelope || state >= 2 else { return [3] }
        if isEncoded, request[8...11].contains(where: { $0 > 0 }) || happens(0.1), happens(temper.baseRefusals) {
            return [18]
        }
        let from = request[isEncoded ? 4...7 : 7...10].reversed().reduce(0) { $0 << 8 | Int($1) }
        stream = nil
        self.object = object
        state = object == .envelope ? 1 : 3
        offset = object == .envelope ? 0 : min(from, held)
        if happens(temper.lies * 0.3) { offset = Int.random(in: 0...offset, using: &random) }
        if object == .image { held = offset }
        next &+= 4096
        first = here
        guard isEncoded else { return [0] + here }
        stream = HostileStream(of: release.image, from: offset)
        offset = 0
        return [0] + first
    }
}

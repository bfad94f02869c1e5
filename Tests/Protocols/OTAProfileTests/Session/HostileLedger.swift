import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate

/// Checks a host against the profile. It receives the host's events and actions, and records each violation.
///
/// It is an independent check: only docs/ota-profile.md was the source.
struct HostileLedger {
    private let release: HostileRelease
    private let task: UpdateTask<VerifiedBundle>
    private(set) var offences: [String] = []

    // The properties of the link, and the values that the device sent over it.
    private var isUp = false
    private var valueLength = 0
    private var info: DeviceInfo?
    private var version: [UInt8]?
    private var state: UInt8?

    private var lastTag: UInt8?
    private var pending: (opcode: UInt8, tag: UInt8, object: TransferObject?, from: Int)?
    /// The last BEGIN was for an encoded image.
    private var isEncoded = false

    /// The open object: the acknowledged and the sent sequence, and the offset at each sequence since the acknowledged one.
    private var open: (object: TransferObject, acked: UInt16, sent: UInt16, offsets: [UInt16: Int])?
    /// The stream of the open object; nil: the object is plain.
    private var stream: HostileStream?
    private var chunksBehindSync = 0

    private var isImageVerified = false
    private var hasAskedForBoot = false
    private var hasAskedToConfirm = false
    private var isConfirmed = false

    init(_ release: HostileRelease, _ task: UpdateTask<VerifiedBundle>) {
        self.release = release
        self.task = task
    }

    /// The push's ending; nil if the task is not a push.
    private var ending: UpdateOptions.Ending? {
        if case .push(_, let options) = task { options.ending } else { nil }
    }

    private mutating func require(_ condition: Bool, _ offence: @autoclosure () -> String) {
        if !condition { offences.append(offence()) }
    }

    // MARK: Events to the host

    mutating func hear(_ event: UpdateEvent) {
        switch event {
        case .linkUp(let properties):
            (isUp, valueLength) = (true, properties.maximumValueLength)
            (info, version, state, pending, open, isImageVerified) = (nil, nil, nil, nil, nil, false)
        case .linkDown: isUp = false
        case .link(let event) where isUp: hear(event)
        default: break
        }
    }

    private mutating func hear(_ event: LinkEvent) {
        switch event {
        case .value(let bytes, ProfileChannel.info) where info == nil: info = try? DeviceInfo(parsing: bytes)
        case .value(let bytes, ProfileChannel.version) where version == nil: version = bytes
        case .value(let bytes, ProfileChannel.progress) where state == nil: state = bytes.first
        case .notified(let bytes, ProfileChannel.progress):
            if bytes.count == 12, bytes[0] <= 5, bytes[1] <= 19 { take(Array(bytes[2...])) }
        case .notified(let bytes, ProfileChannel.control): hear(answer: bytes)
        default: break
        }
    }

    private mutating func hear(answer bytes: [UInt8]) {
        guard let request = pending, bytes.count >= 3, bytes[0] == 0x80 | request.opcode, bytes[1] == request.tag else {
            return
        }
        pending = nil
        guard bytes[2] == 0 else { return }
        switch request.opcode {
        case 1:
            guard bytes.count == 13, let object = request.object else { return }
            let (next, offset, checksum) = position(Array(bytes[3...]))
            guard offset <= min(request.from, release.bytes(of: object).count),
                checksum == release.checksum(of: object, upTo: offset)
            else { return }
            stream = isEncoded ? HostileStream(of: release.image, from: offset) : nil
            open = (object, next, next, [next: isEncoded ? 0 : offset])
        case 2: if bytes.count == 13 { take(Array(bytes[3...])) }
        case 3: if bytes.count == 3, open?.object == .image { isImageVerified = true }
        case 5: if bytes.count == 3 { isConfirmed = state == 5 }
        default: break
        }
    }

    private func position(_ bytes: [UInt8]) -> (next: UInt16, offset: Int, checksum: UInt32) {
        func number(_ range: ClosedRange<Int>) -> Int { bytes[range].reversed().reduce(0) { $0 << 8 | Int($1) } }
        return (UInt16(number(0...1)), number(2...5), UInt32(number(6...9)))
    }

    /// Evaluates a position by the table in docs/ota-profile.md, "Data, and how order is kept".
    private mutating func take(_ bytes: [UInt8]) {
        guard var known = open else { return }
        let (next, offset, checksum) = position(bytes)
        let inFlight = known.sent &- known.acked
        let isRewind = next &- known.acked > inFlight
        let behind = isRewind ? next &- 4096 : next
        guard behind &- known.acked <= inFlight, known.offsets[behind] == offset,
            checksum == stream?.checksum(upTo: offset) ?? release.checksum(of: known.object, upTo: offset)
        else { return }
        known.acked = next
        if isRewind { (known.sent, known.offsets) = (next, [next: offset]) }
        open = known
    }

    // MARK: Actions of the host

    mutating func see(_ action: UpdateAction) {
        switch action {
        case .link(.send(let chunks, let channel)):
            require(channel == ProfileChannel.data, "chunks sent to another channel")
            for chunk in chunks { see(chunk: chunk) }
        case .link(.write(let bytes, let channel)):
            require(channel == ProfileChannel.control, "a write to another channel")
            see(request: bytes)
        case .link: require(isUp, "a command without a link")
        case .connect, .find, .disconnect: isUp = false
        case .finish(let report): see(report.outcome)
        case .acceptCandidate, .encode, .report, .stage, .fail: break
        }
    }

    private mutating func see(chunk: [UInt8]) {
        guard isUp, var known = open, let info, pending == nil || pending?.opcode == 2 else {
            return require(false, "a chunk that is not allowed in this state")
        }
        let bytes = stream?.bytes ?? release.bytes(of: known.object)
        let sequence = chunk.count < 2 ? 0 : UInt16(chunk[0]) | UInt16(chunk[1]) << 8
        let offset = known.offsets[known.sent] ?? 0
        let end = offset + chunk.count - 2
        require(sequence == known.sent, "sequence \(sequence), not \(known.sent)")
        require(
            chunk.count >= 3 && end <= bytes.count
                && chunk.dropFirst(2).elementsEqual(bytes[offset..<min(end, bytes.count)]),
            "other bytes than those at \(offset)")
        require(chunk.count <= min(valueLength, info.longestValue, 512), "a chunk of \(chunk.count) bytes")
        known.sent &+= 1
        known.offsets[known.sent] = end
        open = known
        let inFlight = Int(known.sent &- known.acked)
        if let stream, let acked = known.offsets[known.acked] {
            require(stream.starts(in: offset..<end) <= 1, "two chunks of the encoding start in a value")
            require(stream.starts(in: acked..<end) <= 4, "more than four chunks of the encoding start in flight")
        }
        require(inFlight <= info.window, "\(inFlight) chunks in flight, window \(info.window)")
        guard pending != nil else { return }
        chunksBehindSync += 1
        require(chunksBehindSync <= info.window, "more than a window of \(info.window) chunks after a SYNC")
    }

    private mutating func see(request bytes: [UInt8]) {
        require(
            isUp && info != nil && version != nil && state != nil, "a request before the device reported its properties"
        )
        require(pending == nil, "a second request while the first is pending")
        guard bytes.count >= 2 else { return require(false, "a request of fewer than 2 bytes") }
        require(lastTag.map { $0 &+ 1 == bytes[1] } ?? true, "unexpected tag \(bytes[1])")
        lastTag = bytes[1]
        pending = (bytes[0], bytes[1], nil, 0)
        let arrived =
            open.map { $0.offsets[$0.acked] == stream?.bytes.count ?? release.bytes(of: $0.object).count } ?? false
        switch bytes[0] {
        case 1 where bytes.count == 20 && bytes[2] == 3:
            pending?.object = .image
            pending?.from = bytes[4...7].reversed().reduce(0) { $0 << 8 | Int($1) }
            (open, isEncoded, isImageVerified) = (nil, true, false)
            let size = bytes[8...11].reversed().reduce(0) { $0 << 8 | Int($1) }
            require(bytes[3] == 1, "an encoding that is not LZMA2")
            require(
                size <= info?.largestBase ?? 0 && info?.largestBase != nil, "a base that the device does not accept")
            let isBase = HostileStream.bases.contains {
                $0.size == size && bytes[12...].elementsEqual($0.digest.prefix)
            }
            require(isBase || bytes[8...].allSatisfy { $0 == 0 }, "a base that is not in the options")
        case 1:
            guard bytes.count == 19, let object = TransferObject(rawValue: bytes[2]) else {
                return require(false, "a malformed BEGIN")
            }
            pending?.object = object
            pending?.from = bytes[7...10].reversed().reduce(0) { $0 << 8 | Int($1) }
            (open, isEncoded, isImageVerified) = (nil, false, false)
            let bundle = release.bundle
            let digest = object == .envelope ? bundle.envelopeDigest : bundle.manifest.imageDigest
            require(bytes[11...].elementsEqual(digest.prefix), "a BEGIN for an object that is not in the bundle")
        case 2:
            require(
                bytes.count == 4 && open?.sent == UInt16(bytes[2]) | UInt16(bytes[3]) << 8,
                "a SYNC with a wrong sequence")
            chunksBehindSync = 0
        case 3: require(bytes.count == 2 && arrived, "FINISH before all bytes are acknowledged")
        case 4:
            require(isImageVerified, "APPLY of an unverified image")
            require(bytes.dropFirst(2) == [ending == .permanent ? 1 : 0], "APPLY with the wrong ending")
            hasAskedForBoot = true
        case 5:
            require(state == 5 && (ending == nil || runsNew), "CONFIRM of an image that is not on trial")
            hasAskedToConfirm = true
        case 6, 7: require(bytes.count == (bytes[0] == 6 ? 2 : 3), "a malformed request")
        default: require(false, "unknown opcode \(bytes[0])")
        }
        require(opcodes.contains(bytes[0]), "opcode \(bytes[0]) is not allowed in this task")
    }

    private var opcodes: ClosedRange<UInt8> {
        switch task {
        case .push: 1...5
        case .status, .restart: 0...0
        case .confirm: 5...5
        case .discard: 6...6
        case .identify: 7...7
        }
    }

    private var runsNew: Bool { version == Array(release.version.utf8) }

    private mutating func see(_ outcome: UpdateReport.Outcome) {
        switch outcome {
        case .confirmed:
            let isSettled = state != 5 && (hasAskedForBoot || hasAskedToConfirm)
            require(
                (ending == nil || runsNew) && (isConfirmed || isSettled),
                "the outcome is confirmed without the device's report")
        case .onTrial:
            require(runsNew && state == 5 && ending == .trial, "the outcome is on trial without the device's report")
        case .alreadyRunning:
            require(
                runsNew && state != 5 && info?.running == release.bundle.manifestDigest.prefix,
                "the outcome is already running, but the image does not run")
        case .done: require(ending == nil, "a push with the outcome done")
        case .wouldUpdate: require(false, "the outcome of a dry run without a dry run")
        case .returned: require(false, "the outcome of a device with one slot over the OTA profile")
        }
    }
}

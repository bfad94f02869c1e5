import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate

/// A hostile SMP server.
struct HostileSMPDevice: HostilePeer {
    private let plan: HostilePlan
    private let release: SMPRelease
    private var assembler = SMPFrameAssembler()
    private var links = 0
    private var answers = 0
    private var busyTimes = 0
    private var offset = 0
    private var isHeld = false
    private var isPending = false
    private var isRunning = false
    private var isConfirmed = false
    private var isReset = false

    init(_ plan: HostilePlan, _ release: SMPRelease, isOnTrial: Bool) {
        self.plan = plan
        self.release = release
        isRunning = isOnTrial
    }

    mutating func connect() -> LinkProperties? {
        if isReset {
            if plan.strategy == .staying, plan.variant == 0 { return nil }
            // A restart without a pending image ends a trial.
            if plan.strategy != .staying || plan.variant > 2 {
                (isRunning, isPending, isHeld) = (isPending, false, false)
            }
            isReset = false
        }
        links += 1
        answers = 0
        assembler = SMPFrameAssembler()
        return LinkProperties(
            channels: [SMPChannel.value], maximumValueLength: plan.valueLength,
            preservesMessageBoundaries: plan.variant == 1)
    }

    mutating func handle(_ command: LinkCommand) -> [HostileReply] {
        switch command {
        case .subscribe(let channel): return [HostileReply(delay: .zero, event: .subscribed(channel))]
        case .read, .write: return []
        case .send(let values, _):
            var replies: [HostileReply] = []
            for value in values {
                for frame in (try? assembler.take(value)) ?? [] { replies += answer(frame) }
            }
            return replies
        }
    }

    private mutating func answer(_ frame: SMPFrame) -> [HostileReply] {
        guard let fields = answer(to: frame) else { return [.loss] }
        let bytes = SMPFrame(
            version: frame.version, operation: frame.operation == .read ? .readAnswer : .writeAnswer,
            group: frame.group, sequence: frame.sequence, command: frame.command,
            body: CBOREncoder.encode(.map(fields))
        ).bytes
        let values = stride(from: 0, to: bytes.count, by: plan.valueLength).map {
            Array(bytes[$0...].prefix(plan.valueLength))
        }
        return plan.replies(values, on: SMPChannel.value, answers: &answers)
    }

    /// Returns nil if the link breaks.
    private mutating func answer(to frame: SMPFrame) -> [String: CBORValue]? {
        let fields = (try? CBORDecoder.decode(frame.body))?.map ?? [:]
        if plan.strategy == .busy {
            busyTimes = (busyTimes + 1) % 44
            if busyTimes > 0 { return ["rc": CBORValue(10)] }
        }
        switch (frame.group, frame.command, frame.operation) {
        case (0, 0, _): return ["r": fields["d"] ?? .null]
        case (0, 5, _):
            isReset = true
            return [:]
        case (0, 6, _):
            return ["buf_size": CBORValue(plan.announcesMaxima ? 4096 : 128), "buf_count": CBORValue(plan.window)]
        case (1, 0, .read): return list
        case (1, 0, _): return mark(fields)
        case (1, 1, _): return take(fields)
        case (1, 5, _):
            isHeld = false
            return [:]
        default: return ["rc": CBORValue(8)]
        }
    }

    private var list: [String: CBORValue] {
        var images: [CBORValue] = []
        func add(_ digest: [UInt8], slot: Int, _ flags: [String: Bool]) {
            var entry: [String: CBORValue] = [
                "slot": CBORValue(slot), "version": .text("1.0.0"), "hash": .bytes(digest),
            ]
            for (key, value) in flags { entry[key] = .bool(value) }
            images.append(.map(entry))
        }
        let other = [UInt8](repeating: 1, count: 32)
        add(isRunning ? digest : other, slot: 0, ["active": true, "confirmed": !isRunning || isConfirmed])
        if isHeld { add(digest, slot: 1, ["pending": isPending]) }
        return ["images": .array(images)]
    }

    private var digest: [UInt8] { SMPImage(release.verified).listedDigest }

    private mutating func mark(_ fields: [String: CBORValue]) -> [String: CBORValue] {
        let confirm = fields["confirm"]?.bool ?? false
        guard confirm || fields["hash"] != nil else { return ["rc": CBORValue(3)] }
        if !confirm { isPending = plan.strategy != .staying || plan.variant != 2 }
        // The image stays on trial forever.
        if confirm, plan.strategy != .staying { isConfirmed = true }
        return list
    }

    private mutating func take(_ fields: [String: CBORValue]) -> [String: CBORValue]? {
        let (data, from) = (fields["data"]?.bytes?.count ?? 0, fields["off"]?.integer ?? 0)
        let size = release.image.count
        switch plan.strategy {
        case .alternating: offset = offset == 100 ? 200 : 100
        case .creeping: offset = min(offset + plan.step, size)
        default:
            if from == 0, plan.variant > 1 { offset = 0 }
            if from == offset { offset += data }
        }
        if plan.strategy == .restarting, offset >= size * 99 / 100 - 5000 + links * plan.step {
            if plan.variant > 1 { offset = 0 }
            return nil
        }
        if offset >= size {
            if plan.strategy == .denying, plan.variant < 2 { return ["off": CBORValue(size)] }
            if plan.strategy == .denying {
                offset = 0
                return plan.variant == 2 ? ["off": CBORValue(0)] : ["off": CBORValue(size), "match": .bool(false)]
            }
            isHeld = true
        }
        return ["off": CBORValue(offset)]
    }
}

extension SMPImage {
    /// The SHA-256 in the image's TLVs.
    fileprivate var listedDigest: [UInt8] { verified.image.tlvs.first { $0.type == 0x10 }?.value ?? [] }
}

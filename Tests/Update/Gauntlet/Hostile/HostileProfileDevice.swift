import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate

/// A hostile device with the GATT OTA profile. It knows the image, so its positions have the correct CRC.
///
/// It does not decode an encoded image. It adds the size of each Data value to the number of image bytes that it holds.
struct HostileProfileDevice: HostilePeer {
    private let plan: HostilePlan
    private let release: ExampleRelease
    private var links = 0
    private var answers = 0
    private var state = DeviceState.idle
    private var object = TransferObject.envelope
    private var offset = 0
    private var next: UInt16 = 0
    /// The number of image bytes that the device holds.
    private var held = 0
    private var busyTimes = 0
    /// The bytes of the stream since BEGIN of an encoded image; nil: the open object is plain.
    private var stream: [UInt8]?
    /// The numbers of BEGINs of an image, and of requests and transfers.
    private var begins = 0, exchanges = 0
    private var isApplied = false
    private var runsNew: Bool
    private var isConfirmed = false

    /// - Parameter isOnTrial: true if the new image is on trial from the start.
    init(_ plan: HostilePlan, _ release: ExampleRelease, isOnTrial: Bool) {
        self.plan = plan
        self.release = release
        runsNew = isOnTrial
    }

    private var bytes: [UInt8] {
        object == .envelope ? release.bundle.envelope.bytes : release.image
    }

    mutating func connect() -> LinkProperties? {
        if isApplied {
            if plan.strategy == .staying, plan.variant == 0 { return nil }
            (isApplied, runsNew) = (false, plan.strategy != .staying || plan.variant > 1)
        }
        links += 1
        (state, answers) = (runsNew && !isConfirmed ? .trial : .idle, 0)
        let channels: Set = [
            ProfileChannel.info, ProfileChannel.control, ProfileChannel.data, ProfileChannel.progress,
            ProfileChannel.version,
        ]
        return LinkProperties(channels: channels, maximumValueLength: plan.valueLength)
    }

    mutating func handle(_ command: LinkCommand) -> [HostileReply] {
        switch command {
        case .subscribe(let channel): return [HostileReply(delay: .zero, event: .subscribed(channel))]
        case .read(let channel): return [HostileReply(delay: .zero, event: .value(value(of: channel), channel))]
        case .write(let request, let channel):
            let written = HostileReply(delay: .zero, event: .written(channel))
            return [written] + plan.replies([answer(request)], on: channel, answers: &answers)
        case .send(let chunks, _): return take(chunks)
        }
    }

    private func value(of channel: Channel) -> [UInt8] {
        switch channel {
        case ProfileChannel.info: info
        case ProfileChannel.version: Array((runsNew ? "1.1.0" : "1.0.0").utf8)
        default: [state.rawValue, 0] + [UInt8](repeating: 0, count: 10)
        }
    }

    private var info: [UInt8] {
        var writer = ByteWriter()
        func field(_ type: UInt8, _ value: (inout ByteWriter) -> Void) {
            var content = ByteWriter()
            value(&content)
            writer.write(type)
            writer.write(UInt8(content.bytes.count))
            writer.write(content.bytes)
        }
        field(1) { $0.write(1 as UInt8) }
        field(2) { $0.write(Array("demo".utf8)) }
        field(3) { $0.write(1 as UInt16) }
        field(4) { $0.write(1 as UInt32) }
        field(5) {
            $0.write(0 as UInt8); $0.write(1 << 20 as UInt32)
        }
        field(6) {
            $0.write(plan.step < 18 ? 20 : 512 as UInt16); $0.write(UInt16(plan.window))
        }
        field(7) {
            $0.write(plan.announcesMaxima ? UInt16.max : 10)
            $0.write(plan.announcesMaxima ? UInt16.max : 60)
        }
        field(8) { $0.write(release.key.id.bytes) }
        if held > 0 {
            field(10) {
                $0.write(release.manifestDigest.prefix); $0.write(UInt32(held))
            }
        }
        if plan.encoding != .none {
            field(11) {
                $0.write(1 as UInt8)
                // The largest base changes with each link.
                $0.write(plan.encoding == .refusing && links.isMultiple(of: 2) ? 0 : plan.largestBase)
            }
        }
        return writer.bytes
    }

    private var position: [UInt8] {
        guard let stream else { return position(offset, crc: CRC32.checksum(of: bytes[..<offset])) }
        switch plan.encoding {
        case .outside where exchanges.isMultiple(of: 5):
            return position([stream.count + 1, 1 << 30, Int(UInt32.max)][plan.variant % 3], crc: 0)
        case .retreating where exchanges.isMultiple(of: 3):
            let earlier = max(0, stream.count - plan.step)
            return position(earlier, crc: CRC32.checksum(of: stream[..<earlier]))
        default: return position(stream.count, crc: CRC32.checksum(of: stream))
        }
    }

    private func position(_ offset: Int, crc: UInt32) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(next)
        writer.write(UInt32(clamping: offset))
        writer.write(crc)
        return writer.bytes
    }

    /// The status with which the device answers at any time; nil: the answer is honest.
    private var untimelyStatus: DeviceStatus? {
        guard plan.encoding == .anyTime, exchanges % (5 + plan.variant) == 4 else { return nil }
        return exchanges.isMultiple(of: 2) ? .wrongBase : .notDecoded
    }

    /// Accepts one, all or none of the chunks, depending on the strategy.
    private mutating func take(_ chunks: [[UInt8]]) -> [HostileReply] {
        let most: Int
        switch plan.strategy {
        case _ where object == .envelope: most = .max
        case .creeping, .dripping: most = 1
        case .alternating: most = 0
        default: most = .max
        }
        exchanges += 1
        var taken = 0
        for chunk in chunks where chunk.count > 2 && UInt16(chunk[0]) | UInt16(chunk[1]) << 8 == next {
            guard taken < most, stream != nil || offset + chunk.count - 2 <= bytes.count else { break }
            taken += 1
            next &+= 1
            offset = min(offset + chunk.count - 2, bytes.count)
            stream? += chunk.dropFirst(2)
        }
        if object == .image { held = max(held, offset) }
        if taken < chunks.count { next &+= 4096 }
        if let status = untimelyStatus ?? (hasFailedToDecode ? .notDecoded : nil) {
            state = .accepted
            return plan.replies(
                [[state.rawValue, status.rawValue] + position(0, crc: 0)], on: ProfileChannel.progress,
                answers: &answers)
        }
        if plan.strategy == .restarting, object == .image, offset < bytes.count,
            offset >= bytes.count * 99 / 100 - 5000 + links * plan.step
        {
            if plan.variant > 1 { held = 0 }
            return [.loss]
        }
        // A dripping device only answers the flush.
        guard plan.strategy != .dripping else { return [] }
        return plan.replies(
            [[state.rawValue, 0] + position], on: ProfileChannel.progress, answers: &answers)
    }

    private var hasFailedToDecode: Bool {
        guard plan.encoding == .undecodable, let stream else { return false }
        return stream.count >= plan.step * begins
    }

    private mutating func answer(_ request: [UInt8]) -> [UInt8] {
        guard request.count >= 2 else { return [] }
        exchanges += 1
        let head = [0x80 | request[0], request[1]]
        if let status = untimelyStatus { return head + [status.rawValue] }
        if plan.strategy == .busy {
            busyTimes = (busyTimes + 1) % 44
            if busyTimes > 0 { return head + [DeviceStatus.busy.rawValue] }
        }
        switch request[0] {
        case 1: return head + begin(request)
        case 2:
            if UInt16(request[2]) | UInt16(request[3]) << 8 != next { next &+= 4096 }
            return head + [0] + position
        case 3 where stream != nil && plan.encoding == .incomplete: return head + [DeviceStatus.badState.rawValue]
        case 3 where object == .image && plan.strategy == .denying:
            (held, offset) = (0, 0)
            return head + [DeviceStatus.digestMismatch.rawValue]
        case 3: return head + [0]
        case 4:
            isApplied = true
            return head + [0]
        case 5 where plan.strategy != .staying:
            (isConfirmed, state) = (true, .idle)
            return head + [0]
        case 6 where plan.strategy != .staying:
            (runsNew, state) = (false, .idle)
            return head + [0]
        default: return head + [0]
        }
    }

    private mutating func begin(_ request: [UInt8]) -> [UInt8] {
        guard request.count > 2, let object = TransferObject(rawValue: min(request[2], TransferObject.image.rawValue)),
            request.count == (request[2] == Self.encodedImage ? 20 : 19)
        else { return [DeviceStatus.badArgument.rawValue] }
        let isEncoded = request[2] == Self.encodedImage
        if isEncoded, plan.encoding == .refusing, plan.variant > 1 || request[8...11].contains(where: { $0 > 0 }) {
            return [DeviceStatus.wrongBase.rawValue]
        }
        self.object = object
        state = object == .envelope ? .envelope : .image
        stream = nil
        let from = request[isEncoded ? 4...7 : 7...10].reversed().reduce(0) { $0 << 8 | Int($1) }
        if object == .image { begins += 1 }
        if plan.strategy == .alternating { held = links.isMultiple(of: 2) ? 100 : 200 }
        if plan.encoding == .retreating { held = max(0, held - plan.step) }
        offset = object == .envelope ? 0 : min(from, held)
        next &+= 4096
        defer { if isEncoded { stream = [] } }
        if isEncoded, plan.encoding == .outside, plan.variant > 0 {
            return [0] + position(plan.variant == 1 ? bytes.count + 1 : Int(UInt32.max), crc: 0)
        }
        return [0] + position
    }

    private static let encodedImage: UInt8 = 3
}

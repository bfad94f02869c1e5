import OTAFirmware
import OTASigning
import OTAUpdate

/// What the rules have learned about the device, and the values that one step leaves for the next.
struct CheckMemory: Sendable {
    /// The bundle of the user; nil: only the rules that need no signed envelope.
    let bundle: VerifiedBundle?
    /// The notifications of Control that no open request explains.
    var strayAnswers: [[UInt8]] = []
    /// The answers with a length that the specification does not allow.
    var malformedAnswers: [[UInt8]] = []

    var link = LinkProperties(channels: [], maximumValueLength: 0)
    var firstInfo: DeviceInfo?
    var version: [UInt8] = []
    var infoBytes: [UInt8] = []
    /// True if no BEGIN was accepted since the last event that leads to *idle*.
    var isIdle = false
    /// The sequence number that the device expects next, from its last position.
    var next: UInt16 = 0
    /// The accepted bytes of the open object, and the bytes of the object.
    var offset = 0
    var object: [UInt8] = []
    /// The highest offset so far, and the number of bursts in a row that did not raise it.
    var furthest = 0
    var stalls = 0
    /// The number of bytes of the image that the device has acknowledged before the link was cut.
    var acknowledged = 0
    var note: String?

    init(bundle: VerifiedBundle?) { self.bundle = bundle }

    /// The description of the device. Before it was read, the values that every device supports.
    var limits: (longestValue: Int, window: Int, longestEnvelope: Int) {
        let value = min(firstInfo?.longestValue ?? 20, link.maximumValueLength, ChunkLength.longestAttribute)
        return (max(value, 3), firstInfo?.window ?? 1, firstInfo?.longestEnvelope ?? 158)
    }

    /// True if the device holds a partial upload of the user, which some requests would discard.
    var holdsUpload: Bool { firstInfo?.held != nil && bundle == nil }

    /// Returns a value of Data with the sequence number `next` + `ahead`.
    func chunk(_ bytes: some Sequence<UInt8>, ahead: Int = 0) -> [UInt8] {
        let sequence = next &+ UInt16(truncatingIfNeeded: ahead)
        return [UInt8(truncatingIfNeeded: sequence), UInt8(truncatingIfNeeded: sequence >> 8)] + bytes
    }

    /// The largest number of chunks before SYNC, so that a slow link transfers them in the time limit of its answer.
    private static let largestBurst = 64

    /// The next chunks of the open object, at most a window, of at most this many image bytes in all.
    func burst(upTo end: Int) -> [[UInt8]] {
        let length = ChunkLength.planned(link: limits.longestValue) - 2
        var (values, position): ([[UInt8]], Int) = ([], offset)
        while position < end, values.count < min(limits.window, Self.largestBurst) {
            let part = object[position..<min(end, position + length)]
            values.append(chunk(part, ahead: values.count))
            position += part.count
        }
        return values
    }

    /// The CRC-32 of the first bytes of the open object.
    func crc(_ count: Int) -> UInt32 { CRC32.checksum(of: object.prefix(count)) }
}

/// The bytes of requests (docs/ota-profile.md, "Control"), without the tag. `Request` builds only requests that are allowed.
enum CheckRequest {
    static let finish: [UInt8] = [3]
    static let confirm: [UInt8] = [5]
    static let discard: [UInt8] = [6]
    static let applyTrial: [UInt8] = [4, 0]

    static func begin(_ object: UInt8, size: Int, from: UInt32 = 0, digest: [UInt8] = Array(repeating: 0, count: 8))
        -> [UInt8]
    {
        var writer = ByteWriter(reservingCapacity: 18)
        writer.write(1 as UInt8)
        writer.write(object)
        writer.write(UInt32(clamping: size))
        writer.write(from)
        writer.write(digest)
        return writer.bytes
    }

    static func sync(_ sequence: UInt16) -> [UInt8] {
        [2, UInt8(truncatingIfNeeded: sequence), UInt8(truncatingIfNeeded: sequence >> 8)]
    }
}

import OTAFirmware
import OTAProfile
import OTAUpdate

/// A device that accepts encoded images. It knows the chunks of each stream from the test's encoder, and does not decode the bytes.
///
/// It follows docs/ota-profile.md, except for the failures in its properties.
struct PlayedDevice {
    /// An opened image: plain, or as a stream.
    private struct Opened {
        let isStream: Bool
        /// The accepted bytes of the stream or of the plain image, and their CRC-32.
        var taken: Int
        var crc: UInt32
    }

    let image: [UInt8]
    /// The value of Info 11; nil: the device has no such item.
    var largestBase: UInt32? = 1 << 20
    /// Replaces `largestBase` on each link after the first.
    var laterLargestBase: UInt32?
    var version = "1.0.0"
    var runningDigest: [UInt8]?
    /// The first 8 bytes of the digest of the image that runs.
    var base: [UInt8] = []
    /// The answers to the next requests BEGIN of an encoded image, if they are not *ok*.
    var refusals: [UInt8] = []
    /// The numbers of the streams, from 1, that fail to decode in their second Data value.
    var undecodable: Set<Int> = []
    /// The device reports `undecodable` in Progress. If false, the notification is lost.
    var notifiesFailure = true
    /// The device reports its position in Progress after each Data value of an encoded image.
    var acknowledgesValues = false
    /// The number of Data values of an image after which each link is lost.
    var valuesPerLink: Int?
    /// After a transfer of an encoded image, the device loses this number of links at BEGIN of the envelope.
    var linksLostAtBegin = 0
    /// The answer to the next FINISH of the image that is not *ok*.
    var finishAnswer: UInt8?

    /// The image bytes that the device has.
    private(set) var offset = 0
    /// Each BEGIN of the image: `plain OFFSET`, `compressed OFFSET` or `delta OFFSET` with the offset in the answer.
    private(set) var begins: [String] = []
    private(set) var mostStartsInValue = 0
    private(set) var imageValues = 0

    private var links = 0
    private var streams = 0
    private var valuesOnLink = 0
    private var state: UInt8 = 0
    private var next: UInt16 = 0
    private var opened: Opened?
    private var envelope: (size: Int, taken: Int, crc: UInt32) = (0, 0, 0)
    private var isApplied = false

    init(image: [UInt8]) { self.image = image }

    /// The device has the first bytes of the image from an earlier push.
    mutating func hold(_ count: Int) { offset = count }

    var info: [UInt8] {
        var device = Conversation.Device()
        device.held = offset > 0 ? ExampleUpdate.manifestPrefix + Self.u32(offset) : nil
        device.running = runningDigest
        return device.info + (largestBase.map { [11, 5, 1] + Self.u32(Int($0)) } ?? [])
    }
    var progress: [UInt8] { [state] + [UInt8](repeating: 0, count: 11) }

    mutating func connect() {
        links += 1
        if links > 1, let laterLargestBase { largestBase = laterLargestBase }
        state = isApplied || state == 5 ? 5 : 0
        if isApplied {
            (isApplied, version) = (false, "1.1.0")
            if runningDigest != nil { runningDigest = ExampleUpdate.manifestPrefix }
        }
        (next, opened, valuesOnLink) = (0, nil, 0)
    }

    /// Performs a request.
    mutating func answer(_ bytes: [UInt8]) -> [UInt8] {
        let head = [0x80 | bytes[0], bytes[1]]
        switch bytes[0] {
        case 1 where bytes[2] == 1:
            next &+= 4096
            envelope = (Self.number(bytes[3..<7]), 0, 0)
            state = 1
            return head + [0] + position(offset: 0, crc: 0)
        case 1:
            return head + begin(bytes)
        case 2:
            guard state == 1 || state == 3 else { return head + [3] }
            return head + [0] + position
        case 3 where state == 1:
            state = 2
            return head + [0]
        case 3:
            if let answer = finishAnswer.take() {
                if answer == 16 { (offset, state) = (0, 2) }
                return head + [answer]
            }
            guard state == 3, offset == image.count else { return head + [3] }
            state = 4
            return head + [0]
        case 4:
            isApplied = true
            return head + [0]
        case 5:
            state = 0
            return head + [0]
        default: return head + [1]
        }
    }

    private mutating func begin(_ bytes: [UInt8]) -> [UInt8] {
        let isEncoded = bytes[2] == 3
        if isEncoded {
            if !refusals.isEmpty {
                let refusal = refusals.removeFirst()
                if refusal != 0 { return [refusal] }
            }
            if Self.number(bytes[8..<12]) > 0, Array(bytes[12..<20]) != base { return [18] }
        }
        offset = min(offset, Self.number(isEncoded ? bytes[4..<8] : bytes[7..<11]))
        next &+= 4096
        state = 3
        let crc = CRC32.checksum(of: image[..<offset])
        opened = Opened(isStream: isEncoded, taken: isEncoded ? 0 : offset, crc: isEncoded ? 0 : crc)
        if isEncoded { streams += 1 }
        let form = !isEncoded ? "plain" : Self.number(bytes[8..<12]) > 0 ? "delta" : "compressed"
        begins.append("\(form) \(offset)")
        return [0] + position(offset: offset, crc: crc)
    }

    /// Accepts a Data value. `stream` is the last stream of the test's encoder. Returns a Progress notification; nil: nothing to report.
    mutating func take(_ value: [UInt8], _ stream: EncodedImage?) -> [UInt8]? {
        guard state == 1 || state == 3, UInt16(value[0]) | UInt16(value[1]) << 8 == next else { return nil }
        let bytes = value.dropFirst(2)
        next &+= 1
        if state == 1 {
            envelope.taken += bytes.count
            envelope.crc = CRC32.update(envelope.crc, bytes)
            return nil
        }
        guard var open = opened else { return nil }
        imageValues += 1
        valuesOnLink += 1
        let before = open.taken
        open.taken += bytes.count
        open.crc = CRC32.update(open.crc, bytes)
        opened = open
        guard open.isStream, let stream else {
            offset = open.taken
            return nil
        }
        let starts = ([0] + stream.chunks.map(\.streamEnd).dropLast()).filter { before..<open.taken ~= $0 }
        mostStartsInValue = max(mostStartsInValue, starts.count)
        if undecodable.contains(streams), before > 0 {
            (state, opened) = (2, nil)
            return notifiesFailure ? [2, 19] + position(offset: 0, crc: 0) : nil
        }
        offset = decoded(open.taken, of: stream)
        return acknowledgesValues ? [3, 0] + position : nil
    }

    /// Returns whether the link is lost at this request, in place of an answer.
    mutating func losesLink(at request: [UInt8]) -> Bool {
        guard streams > 0, linksLostAtBegin > 0, request[0] == 1, request[2] == 1 else { return false }
        linksLostAtBegin -= 1
        return true
    }

    /// The link is lost after this value.
    var losesLink: Bool { valuesPerLink.map { valuesOnLink >= $0 } ?? false }

    /// The decoder carries over up to 20 bytes that are not at the end of a chunk.
    private func decoded(_ taken: Int, of stream: EncodedImage) -> Int {
        var (start, image) = (0, stream.offset)
        for chunk in stream.chunks {
            if taken < chunk.streamEnd {
                let usable = max(0, taken - start - 20)
                return image + (chunk.imageEnd - image) * usable / (chunk.streamEnd - start)
            }
            (start, image) = (chunk.streamEnd, chunk.imageEnd)
        }
        return image
    }

    private var position: [UInt8] {
        guard state == 3, let opened else { return position(offset: envelope.taken, crc: envelope.crc) }
        return position(offset: opened.taken, crc: opened.crc)
    }
    private func position(offset: Int, crc: UInt32) -> [UInt8] {
        [UInt8(next & 255), UInt8(next >> 8)] + Self.u32(offset) + Self.u32(Int(crc))
    }
    private static func u32(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) } }
    private static func number(_ bytes: ArraySlice<UInt8>) -> Int { bytes.reversed().reduce(0) { $0 << 8 | Int($1) } }
}

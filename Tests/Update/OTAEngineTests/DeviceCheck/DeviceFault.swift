import OTAProfile
import OTAUpdate
import Testing

/// A violation of the profile, and the rule that must find it.
struct DeviceFault: Sendable, CustomTestStringConvertible {
    let name, rule: String
    var needsBundle = false
    let plan: @Sendable (PacketChanges) -> Void

    var testDescription: String { name }

    init(_ name: String, _ rule: String, bundle: Bool = false, _ plan: @escaping @Sendable (PacketChanges) -> Void) {
        (self.name, self.rule, needsBundle, self.plan) = (name, rule, bundle, plan)
    }

    /// A fault that replaces the status of the answer with a number (from 1) of the answers with this opcode and status.
    private static func status(
        _ name: String, _ rule: String, of opcode: UInt8, _ old: UInt8, to new: UInt8, number: Int = 1,
        bundle: Bool = false
    ) -> DeviceFault {
        DeviceFault(name, rule, bundle: bundle) {
            $0.answer = { changes, bytes in
                guard bytes.count == 3, bytes[0] == 0x80 | opcode, bytes[2] == old, changes.count("status") == number
                else { return [bytes] }
                return [bytes.prefix(2) + [new]]
            }
        }
    }

    static let all: [DeviceFault] = ofServices + ofRequests + ofData + ofEnvelopes + ofImages

    private static let ofServices = [
        DeviceFault("no characteristic Version", "characteristics") {
            $0.properties = { $0.channels.remove(ProfileChannel.version) }
        },
        DeviceFault("Control cannot notify", "properties") {
            $0.properties = { $0.operations[ProfileChannel.control] = [.write] }
        },
        DeviceFault("Control accepts a write without a subscription", "not-subscribed") {
            $0.refused = { _ in .written(ProfileChannel.control) }
        },
        DeviceFault("another ATT error without a subscription", "not-subscribed") {
            $0.refused = { _ in .refused(LinkError(.refused, "", attributeError: 0x80), ProfileChannel.control) }
        },
        DeviceFault("a subscription is refused", "subscriptions") { $0.refusesSubscriptions = true },
        DeviceFault("the items of Info are out of order", "info") {
            $0.value = { _, bytes, channel in channel == ProfileChannel.info ? bytes + [1, 1, 1] : bytes }
        },
        DeviceFault("the window in Info is 0", "info") {
            $0.value = { _, bytes, channel in
                guard channel == ProfileChannel.info else { return bytes }
                return replacing(item: 6, of: bytes) { Array($0.prefix(2)) + [0, 0] }
            }
        },
        DeviceFault("Info changes during a connection", "info-constant") {
            $0.value = { changes, bytes, channel in
                guard channel == ProfileChannel.info, changes.count("info") == 3 else { return bytes }
                return replacing(item: 4, of: bytes) { _ in [9, 9, 9, 9] }
            }
        },
        DeviceFault("Version ends with NUL", "version") {
            $0.value = { _, bytes, channel in channel == ProfileChannel.version ? bytes + [0] : bytes }
        },
        DeviceFault("Progress has 13 bytes", "progress") {
            $0.value = { _, bytes, channel in channel == ProfileChannel.progress ? bytes + [0] : bytes }
        },
        DeviceFault("Progress of a new connection has an offset", "progress") {
            $0.value = { changes, bytes, channel in
                // The first read is the one at the start of the link.
                guard channel == ProfileChannel.progress, changes.count("progress") == 2 else { return bytes }
                return PacketChanges.adding(1, to: bytes, at: 4)
            }
        },
        DeviceFault("the counter rises during the check", "unchanged") {
            $0.value = { changes, bytes, channel in
                guard channel == ProfileChannel.info, changes.count("info") == 4 else { return bytes }
                return replacing(item: 4, of: bytes) { _ in [9, 9, 9, 9] }
            }
        },
    ]

    private static let ofRequests = [
        status("an unknown opcode is a bad argument", "unknown-opcode", of: 0x7F, 1, to: 2),
        status("FINISH is ok in the state idle", "idle-requests", of: 3, 3, to: 0),
        status("APPLY is ok without an image", "apply-without-image", of: 4, 3, to: 0),
        status("CONFIRM is ok outside a trial", "confirm-outside-trial", of: 5, 3, to: 0),
        status("DISCARD is refused in the state idle", "discard", of: 6, 0, to: 3),
        status("IDENTIFY is refused", "identify", of: 7, 0, to: 3),
        status("APPLY is refused as too large in the state envelope", "envelope-requests", of: 4, 3, to: 13, number: 2),
        DeviceFault("a short BEGIN is accepted", "request-length") {
            $0.request = { _, bytes in bytes[0] == 1 && bytes.count == 18 ? bytes + [0] : bytes }
        },
        DeviceFault("a long SYNC is accepted", "request-length") {
            $0.request = { _, bytes in bytes[0] == 2 && bytes.count == 5 ? Array(bytes.prefix(4)) : bytes }
        },
        DeviceFault("an envelope of 157 bytes is opened", "envelope-size") {
            $0.request = { _, bytes in
                bytes[0] == 1 && bytes.count == 19 && bytes[3] == 157
                    ? PacketChanges.adding(1, to: bytes, at: 3) : bytes
            }
        },
        DeviceFault("IDENTIFY is answered twice", "one-answer") {
            $0.answer = { _, bytes in bytes[0] == 0x87 ? [bytes, bytes] : [bytes] }
        },
        DeviceFault("a refusal has an additional byte", "answer-form") {
            $0.answer = { _, bytes in bytes[0] == 0x85 ? [bytes + [0]] : [bytes] }
        },
        DeviceFault("an opcode is answered with another tag", "identify") {
            $0.answer = { _, bytes in bytes[0] == 0x87 ? [] : [bytes] }
        },
    ]

    private static let ofData = [
        DeviceFault("the sequence numbers begin at 100", "first-begin") {
            $0.answer = { _, bytes in bytes.count == 13 ? [PacketChanges.adding(100, to: bytes, at: 3)] : [bytes] }
            $0.progress = { _, bytes in PacketChanges.adding(100, to: bytes, at: 2) }
            $0.request = { _, bytes in bytes[0] == 2 ? PacketChanges.adding(-100, to: bytes, at: 2) : bytes }
            $0.chunk = { _, value in (PacketChanges.adding(-100, to: value, at: 0), nil) }
        },
        DeviceFault("a second BEGIN does not change the sequence number", "second-begin") {
            $0.answer = { changes, bytes in
                guard bytes.count == 13, bytes[0] == 0x81, changes.count("begin") == 5 else { return [bytes] }
                return [PacketChanges.adding(-4096, to: bytes, at: 3)]
            }
        },
        DeviceFault("the CRC of a position is wrong", "position") {
            $0.answer = { changes, bytes in
                guard bytes.count == 13, bytes[0] == 0x82, changes.count("sync") == 1 else { return [bytes] }
                return [bytes.prefix(12) + [bytes[12] ^ 1]]
            }
        },
        DeviceFault("Data with response has no effect", "write-with-response") { $0.deliversDataRequests = false },
        DeviceFault("a gap is not reported", "gap") {
            $0.progress = { changes, bytes in
                PacketChanges.number(bytes, 2) &- changes.next == 4096 && changes.count("rewind") == 1 ? nil : bytes
            }
        },
        DeviceFault("a chunk at the end of the range is dropped", "far-chunk") {
            $0.chunk = { changes, value in (changes.distance(value) == 2047 ? nil : value, nil) }
        },
        DeviceFault("a stale chunk causes a rewind", "stale-chunk") {
            $0.chunk = { changes, value in
                (value, changes.hasBegun && changes.distance(value) == 2048 ? rewind(changes) : nil)
            }
        },
        DeviceFault("a value of 2 bytes counts as a chunk", "short-value") {
            $0.chunk = { _, value in (value.count == 2 ? value + [0] : value, nil) }
        },
        DeviceFault("a chunk that does not fit is shortened", "overflow") {
            $0.chunk = { _, value in
                (value.count == 11 && value.dropFirst(2).allSatisfy { $0 == 0 } ? Array(value.prefix(10)) : value, nil)
            }
        },
        DeviceFault("SYNC does not check its sequence number", "sync-ahead") {
            $0.request = { changes, bytes in
                guard bytes[0] == 2, bytes.count == 4, PacketChanges.number(bytes, 2) &- changes.next == 3 else {
                    return bytes
                }
                return PacketChanges.adding(-3, to: bytes, at: 2)
            }
        },
        DeviceFault("SYNC behind a chunk causes a rewind", "sync-behind") {
            // The rule asks SYNC with the sequence number of BEGIN's answer after one chunk.
            $0.request = { changes, bytes in
                guard bytes[0] == 2, bytes.count == 4, changes.hasSent, PacketChanges.number(bytes, 2) == changes.next
                else {
                    return bytes
                }
                return PacketChanges.adding(5, to: bytes, at: 2)
            }
            $0.chunk = { changes, value in
                changes.hasSent = value.count == 12
                return (value, nil)
            }
        },
        DeviceFault("Data in the state idle causes a rewind", "idle-data") {
            $0.chunk = { changes, value in (value, changes.hasBegun ? nil : rewind(changes)) }
        },
        DeviceFault("Progress is notified only at rewinds", "progress-notifications") {
            $0.progress = { changes, bytes in PacketChanges.number(bytes, 2) &- changes.next < 4096 ? nil : bytes }
        },
        DeviceFault("an envelope stays open after a lost link", "lost-link") {
            $0.value = { changes, bytes, channel in
                guard channel == ProfileChannel.progress, !changes.hasBegun, changes.offset == 100 else { return bytes }
                return [1] + bytes.dropFirst()
            }
        },
    ]

    private static let ofEnvelopes = [
        status(
            "FINISH of an incomplete envelope is a digest mismatch", "finish-incomplete", of: 3, 3, to: 16, number: 2),
        status("a wrong digest of the envelope is malformed", "envelope-digest", of: 3, 16, to: 5),
        status("arbitrary bytes are an envelope", "envelope-malformed", of: 3, 5, to: 7),
        status("an envelope without its last byte is accepted", "envelope-truncated", of: 3, 5, to: 0, number: 2),
        status("an envelope with an additional byte is accepted", "envelope-too-long", of: 3, 5, to: 0, number: 3),
        status("an unknown critical field is skipped", "envelope-critical", of: 3, 6, to: 7),
        status("an unknown key is accepted", "envelope-untrusted", of: 3, 7, to: 0),
        status("a wrong signature is accepted", "envelope-forged", of: 3, 7, to: 0, number: 2),
    ]

    private static let ofImages = [
        status(
            "FINISH is a bad argument in the state accepted", "accepted-requests", of: 3, 3, to: 2, number: 3,
            bundle: true),
        DeviceFault("an upload from 0 begins at 1", "image-from-0", bundle: true) {
            $0.answer = { changes, bytes in
                guard bytes.count == 13, bytes[0] == 0x81, changes.begin[2] == 2,
                    changes.begin[7..<11] == [0, 0, 0, 0], changes.count("from 0") == 1
                else { return [bytes] }
                return [PacketChanges.adding(1, to: bytes, at: 5)]
            }
        },
        DeviceFault("BEGIN image does not look at the requested offset", "image-from", bundle: true) {
            $0.request = { _, bytes in
                guard bytes[0] == 1, bytes.count == 19, bytes[2] == 2, bytes[7..<11] == [1, 0, 0, 0] else {
                    return bytes
                }
                return bytes.prefix(7) + [255, 255, 255, 255] + bytes.dropFirst(11)
            }
        },
        status(
            "FINISH is a bad argument in the state verified", "image-verified", of: 3, 3, to: 2, number: 5, bundle: true
        ),
        DeviceFault("DISCARD keeps the held bytes", "image-discarded", bundle: true) {
            $0.request = { changes, bytes in
                guard bytes[0] == 6, changes.count("discard") == 3 else { return bytes }
                changes.hasSent = true
                return [7, bytes[1], 0]
            }
            $0.answer = { changes, bytes in
                guard bytes[0] == 0x87, changes.hasSent else { return [bytes] }
                return [[0x86] + bytes.dropFirst()]
            }
        },
        DeviceFault("BEGIN image does not check its size", "image-arguments", bundle: true) {
            $0.request = { changes, bytes in
                guard bytes[0] == 1, bytes.count == 19, bytes[2] == 2, bytes[11..<19] != changes.zeros,
                    changes.count("image") == 1
                else { return bytes }
                return PacketChanges.adding(-1, to: bytes, at: 3)
            }
        },
        DeviceFault("the device resumes after bytes that it does not have", "image-resume", bundle: true) {
            $0.answer = { changes, bytes in
                guard bytes.count == 13, bytes[0] == 0x81, changes.begin[2] == 2,
                    changes.begin[7..<11] == [255, 255, 255, 255],
                    changes.count("resume") == 1
                else { return [bytes] }
                return [PacketChanges.adding(100, to: bytes, at: 5)]
            }
        },
        DeviceFault("Info does not report the partial upload", "image-held", bundle: true) {
            $0.value = { _, bytes, channel in
                channel == ProfileChannel.info ? replacing(item: 10, of: bytes) { _ in nil } : bytes
            }
        },
        status("a wrong image is verified", "image-digest", of: 3, 16, to: 0, number: 2, bundle: true),
        status(
            "CONFIRM is refused by the policy in the state image", "image-requests", of: 5, 3, to: 17, number: 4,
            bundle: true),
    ]

    private static func rewind(_ changes: PacketChanges) -> [UInt8] {
        let next = changes.next &+ 4096
        return [changes.hasBegun ? 1 : 0, 0, UInt8(next & 0xFF), UInt8(next >> 8), 0, 0, 0, 0, 0, 0, 0, 0]
    }

    /// Replaces the value of an item of Info; nil: removes the item.
    private static func replacing(item: UInt8, of info: [UInt8], _ change: ([UInt8]) -> [UInt8]?) -> [UInt8] {
        var (result, rest): ([UInt8], ArraySlice<UInt8>) = ([], info[...])
        while rest.count >= 2, let type = rest.first {
            let value = Array(rest.dropFirst(2).prefix(Int(rest[rest.startIndex + 1])))
            rest = rest.dropFirst(2 + value.count)
            if let value = type == item ? change(value) : value { result += [type, UInt8(value.count)] + value }
        }
        return result
    }
}

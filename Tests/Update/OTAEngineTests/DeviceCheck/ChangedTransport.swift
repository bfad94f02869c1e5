import OTAEngine
import OTAProfile
import OTAUpdate

/// A transport to a correct device whose packets a test changes, so that the device seems to violate a rule.
struct ChangedTransport: Transport {
    let base: any Transport
    let changes: PacketChanges

    func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
        changes.newLink()
        let changes = changes
        return try await base.runLink(
            opened: { opened(ChangedLink(base: $0, changes: changes, receive: receive)) },
            receive: { event in changes.changed(event).forEach(receive) })
    }
}

private struct ChangedLink: Link {
    let base: any Link
    let changes: PacketChanges
    let receive: LinkSink

    var properties: LinkProperties {
        var properties = base.properties
        changes.properties(&properties)
        return properties
    }

    func submit(_ command: LinkCommand) {
        let (commands, events) = changes.changed(command)
        commands.forEach(base.submit)
        events.forEach(receive)
    }

    func close() { base.close() }
}

/// The packets of one device, with the values that the changes of a fault need. A test in virtual time uses it on one thread.
final class PacketChanges: @unchecked Sendable {
    /// Changes the properties of a link.
    var properties: (inout LinkProperties) -> Void = { _ in }
    /// Changes a write of Control (opcode, tag, arguments).
    var request: (PacketChanges, [UInt8]) -> [UInt8] = { $1 }
    /// Changes a value of Data; nil: it is lost. The second result is a notification of Progress that the device then sends.
    var chunk: (PacketChanges, [UInt8]) -> (value: [UInt8]?, progress: [UInt8]?) = { ($1, nil) }
    /// Changes an answer; several or no answers are possible.
    var answer: (PacketChanges, [UInt8]) -> [[UInt8]] = { [$1] }
    /// Changes a notification of Progress; nil: it is lost.
    var progress: (PacketChanges, [UInt8]) -> [UInt8]? = { $1 }
    /// Changes a value that was read.
    var value: (PacketChanges, [UInt8], Channel) -> [UInt8] = { _, bytes, _ in bytes }
    /// Changes the answer to a write of Control.
    var refused: (LinkError) -> LinkEvent = { .refused($0, ProfileChannel.control) }
    /// Changes a write of Data with response; false: it is lost.
    var deliversDataRequests = true
    var refusesSubscriptions = false

    /// The number of events of a kind so far, for faults that happen once.
    private var counts: [String: Int] = [:]
    /// The `next` of the last BEGIN, and the offset of the last SYNC.
    private(set) var next: UInt16 = 0
    private(set) var offset = 0
    /// True if a BEGIN was accepted on this link.
    private(set) var hasBegun = false
    /// True if the last value of Data is one that a fault waits for.
    var hasSent = false
    let zeros = ArraySlice<UInt8>(repeating: 0, count: 8)
    /// The last BEGIN.
    private(set) var begin: [UInt8] = []

    /// Returns how often this method was called with this name, from 1.
    func count(_ name: String) -> Int {
        counts[name, default: 0] += 1
        return counts[name] ?? 0
    }

    func newLink() { (next, hasBegun, hasSent) = (0, false, false) }

    func distance(_ value: [UInt8]) -> UInt16 { Self.number(value, 0) &- next }

    static func number(_ bytes: [UInt8], _ offset: Int) -> UInt16 {
        bytes.count >= offset + 2 ? UInt16(bytes[offset]) | UInt16(bytes[offset + 1]) << 8 : 0
    }

    static func adding(_ count: Int, to bytes: [UInt8], at offset: Int) -> [UInt8] {
        guard bytes.count >= offset + 2 else { return bytes }
        var bytes = bytes
        let sum = number(bytes, offset) &+ UInt16(truncatingIfNeeded: count)
        (bytes[offset], bytes[offset + 1]) = (UInt8(sum & 0xFF), UInt8(sum >> 8))
        return bytes
    }

    func changed(_ command: LinkCommand) -> ([LinkCommand], [LinkEvent]) {
        switch command {
        case .write(let bytes, ProfileChannel.control):
            if bytes.first == 1 { begin = bytes }
            return ([.write(request(self, bytes), ProfileChannel.control)], [])
        case .subscribe(let channel) where refusesSubscriptions:
            return ([], [.refused(LinkError(.refused, "the device has no such descriptor"), channel)])
        case .write(_, ProfileChannel.data) where !deliversDataRequests: return ([], [.written(ProfileChannel.data)])
        case .write(let value, ProfileChannel.data):
            return (chunk(self, value).value.map { [.write($0, ProfileChannel.data)] } ?? [], [])
        case .send(let values, ProfileChannel.data):
            var (sent, notified): ([[UInt8]], [LinkEvent]) = ([], [])
            for value in values {
                let (value, progress) = chunk(self, value)
                if let value { sent.append(value) }
                if let progress { notified.append(.notified(progress, ProfileChannel.progress)) }
            }
            return ([.send(sent, ProfileChannel.data)], notified)
        default: return ([command], [])
        }
    }

    func changed(_ event: LinkEvent) -> [LinkEvent] {
        switch event {
        case .notified(let bytes, ProfileChannel.control):
            if bytes.count == 13, bytes[0] == 0x81 { (next, hasBegun) = (Self.number(bytes, 3), true) }
            if bytes.count == 13, bytes[0] == 0x82 { offset = Int(Self.number(bytes, 5)) }
            return answer(self, bytes).map { .notified($0, ProfileChannel.control) }
        case .notified(let bytes, ProfileChannel.progress):
            return progress(self, bytes).map { [.notified($0, ProfileChannel.progress)] } ?? []
        case .value(let bytes, let channel): return [.value(value(self, bytes, channel), channel)]
        case .refused(let error, ProfileChannel.control): return [refused(error)]
        default: return [event]
        }
    }
}

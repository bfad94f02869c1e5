import OTASimulator
import OTAUpdate

/// Injects a world's faults into all of its connections. Under virtual time everything runs on one thread.
final class FaultAgent: @unchecked Sendable {
    private let faults: WorldFaults
    private let device: any VisibleDevice
    private let messages: any Messages.Type
    private var random: SplitMix64
    private var connections = 0
    private var events = 0
    private var eventsOfConnection = 0
    private var missed = 0
    private var reverts: Int
    private var overflowing = 0
    private var kept: LinkEvent?
    private var tags: [UInt8] = []

    init(_ faults: WorldFaults, _ device: any VisibleDevice, _ messages: any Messages.Type) {
        self.faults = faults
        self.device = device
        self.messages = messages
        random = SplitMix64(seed: faults.seed)
        reverts = faults.reverts
    }

    // MARK: Connecting

    func missesAttempt() -> Bool {
        guard let plan = faults.missed, connections + 1 == plan.connection, missed < plan.attempts else { return false }
        missed += 1
        return true
    }

    func revertTrial() {
        guard reverts > 0, device.running?.isOnTrial == true else { return }
        reverts -= 1
        device.losePower(at: device.now)
    }

    func connected(_ properties: inout LinkProperties) {
        connections += 1
        (eventsOfConnection, overflowing, kept) = (0, 0, nil)
        properties.framingOverhead = faults.framingOverhead
        guard !faults.valueLengths.isEmpty else { return }
        let length = faults.valueLengths[(connections - 1) % faults.valueLengths.count]
        properties.maximumValueLength = min(properties.maximumValueLength, length)
    }

    // MARK: To the device

    /// Returns nil if the message is lost.
    func alter(_ command: LinkCommand) -> LinkCommand? {
        guard case .send(let values, let channel) = command else { return command }
        var altered: [[UInt8]] = []
        for message in messages.split(values) {
            if overflowing == 0, happens(faults.overflow.probability) { overflowing = faults.overflow.chunks }
            if overflowing > 0 {
                overflowing -= 1
                // The next chunk arrives: a device whose buffers are always full cannot be updated.
                if overflowing == 0 { overflowing = -1 }
            } else {
                overflowing = 0
                altered += message.map { value in
                    happens(faults.corruption) ? flipped(value, in: messages.spoilable(value, of: message)) : value
                }
            }
        }
        return altered.isEmpty ? nil : .send(altered, channel)
    }

    // MARK: To the host

    /// Returns the events that replace this event, and the stall before them.
    func alter(_ event: LinkEvent) -> (events: [LinkEvent], stall: Duration) {
        events += 1
        eventsOfConnection += 1
        if faults.restarts.contains(events) { device.losePower(at: device.now) }
        if let silence = faults.silence, silence.connection == connections, eventsOfConnection >= silence.event {
            return ([], .zero)
        }
        let stall = happens(faults.stall.probability) ? faults.stall.time : .zero
        guard case .notified(let bytes, let channel) = event else { return ([event], stall) }
        let told = LinkEvent.notified(distorted(bytes), channel)
        var all = [told]
        // The parts of a message arrive once and in order.
        if messages.isWhole(bytes) {
            if happens(faults.duplicate) { all.append(told) }
            if let late = kept {
                all.append(late)
                kept = nil
            } else if happens(faults.late) {
                kept = told
                all = []
            }
        }
        if happens(faults.garbage) { all.append(.notified(messages.garbage(after: bytes, &random), channel)) }
        return (all, stall)
    }

    /// Returns the notification with a false position or a false tag.
    private func distorted(_ bytes: [UInt8]) -> [UInt8] {
        if let position = messages.position(in: bytes), happens(faults.lie) { return flipped(bytes, in: position) }
        guard let place = messages.tag(in: bytes) else { return bytes }
        defer { tags.append(bytes[place]) }
        guard happens(faults.staleTag), let tag = tags.randomElement(using: &random) else { return bytes }
        var bytes = bytes
        bytes[place] = tag
        return bytes
    }

    private func flipped(_ bytes: [UInt8], in range: Range<Int>) -> [UInt8] {
        guard !range.isEmpty else { return bytes }
        var bytes = bytes
        bytes[Int.random(in: range, using: &random)] ^= 1 << UInt8.random(in: 0...7, using: &random)
        return bytes
    }

    private func happens(_ probability: Double) -> Bool {
        probability > 0 && Double.random(in: 0..<1, using: &random) < probability
    }
}

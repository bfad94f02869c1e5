import OTAUpdate

/// The counters of a simulated transport. They start at 0 when the transport is created, and a new link does not reset them. The numbers of
/// events, packets and flash operations in a ``FaultPlan`` refer to these counters.
public struct SimulationStatistics: Sendable, Equatable {
    /// The number of events that the radio has delivered to the host. The ends of links are not counted. Commands that the host's own
    /// Bluetooth stack refused are not counted either.
    public let hostEvents: Int
    /// The number of packets to the device, including packets that the device's Bluetooth stack dropped. A packet is a write with or
    /// without response, a subscription, a read, or the request for a further part of a long read.
    public let devicePackets: Int
    /// The number of writes and erases of the device's flash since the creation of the transport.
    public let flashOperations: Int
    /// The number of connection attempts that reached the device.
    public let links: Int
    /// The maximum number of chunks in flight; 0 for an SMP device. A chunk is in flight from its submission to the link until an
    /// acknowledgement reaches the host.
    public let maximumChunksInFlight: Int
    /// The hash of all transmitted values and their times. Two runs with equal hashes sent the same values at the same times.
    public let transcript: UInt64

    init(_ world: SimulatedWorld) {
        hostEvents = world.faults.hostEvents
        devicePackets = world.faults.devicePackets
        flashOperations = world.device.flashOperationCount - world.firstFlashOperation
        links = world.links
        maximumChunksInFlight = world.window.maximum
        transcript = world.transcript.hash
    }
}

/// Counts the chunks in flight from the host's point of view. A chunk is in flight until the host receives a sequence number that
/// acknowledges the chunk.
struct WindowObserver {
    private(set) var maximum = 0
    private var acknowledged: UInt16 = 0

    /// Resets the acknowledged sequence number, because the sequence numbers of a new connection start at 0.
    mutating func restart() { acknowledged = 0 }

    mutating func hostSends(_ chunk: [UInt8]) {
        guard chunk.count > 2 else { return }
        let inFlight = Self.sequence(chunk, 0) &+ 1 &- acknowledged
        // A rewind is the device's request to send from an earlier offset. The rewind increases the sequence number by 4096
        // (docs/ota-profile.md). Until the host has handled the rewind, the host may submit chunks with old sequence numbers. An old
        // sequence number is below `acknowledged`, so the subtraction wraps to 4096 or more, and this check ignores the chunk.
        if inFlight < 4096 { maximum = max(maximum, Int(inFlight)) }
    }

    mutating func hostReceives(_ value: [UInt8], on channel: Channel) {
        switch channel {
        case VirtualGATT.progress where value.count == 12: acknowledge(Self.sequence(value, 2))
        case VirtualGATT.control where value.count == 13 && value[0] == 0x81: acknowledged = Self.sequence(value, 3)
        case VirtualGATT.control where value.count == 13: acknowledge(Self.sequence(value, 3))
        default: break
        }
    }

    /// Updates the acknowledged sequence number. Ignores an older number, because the host may receive the values of Control and Progress
    /// in another order than the device sent them.
    private mutating func acknowledge(_ next: UInt16) {
        if next &- acknowledged < 0x8000 { acknowledged = next }
    }

    private static func sequence(_ bytes: [UInt8], _ offset: Int) -> UInt16 {
        UInt16(bytes[offset]) | UInt16(bytes[offset + 1]) << 8
    }
}

/// Counts the unsent link-layer packets of the current value in one direction. One value may need several connection events.
struct PacketMeter {
    private var left = 0

    var isInMidValue: Bool { left > 0 }

    /// Sends packets of a value, at most `budget` packets. Returns true if the call has sent the last packet of the value.
    ///
    /// - Parameters:
    ///   - length: the length of the value in bytes.
    ///   - budget: the number of packets left in the connection event. The call subtracts the sent packets.
    mutating func carries(_ length: Int, spending budget: inout Int) -> Bool {
        if left == 0 { left = RadioModel.packets(forValueOf: length) }
        let sent = min(left, budget)
        left -= sent
        budget -= sent
        return left == 0
    }
}

/// A 64-bit FNV-1a hash of all transmitted values and their times. Two runs with equal hashes sent the same values at the same times.
struct Transcript {
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325

    enum Direction: UInt8 {
        case toDevice = 1
        case toHost = 2
        case lost = 3
    }

    mutating func note(_ direction: Direction, _ bytes: [UInt8], at time: Duration) {
        note(direction.rawValue)
        withUnsafeBytes(of: time.nanoseconds.littleEndian) { for byte in $0 { note(byte) } }
        for byte in bytes { note(byte) }
    }

    private mutating func note(_ byte: UInt8) { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
}

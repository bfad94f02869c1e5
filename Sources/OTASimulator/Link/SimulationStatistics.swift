import OTAUpdate

/// The counters of a simulated transport since its creation, over all its links. A `FaultPlan` refers to these counters.
public struct SimulationStatistics: Sendable, Equatable {
    /// The number of events to the host, without the last event of each link (`lost`).
    public let hostEvents: Int
    /// The number of packets to the device: writes with and without response, reads, subscriptions, and each further part of a long read.
    /// It includes packets that the device's stack dropped.
    public let devicePackets: Int
    /// The number of erases and programs of the device's flash.
    public let flashOperations: Int
    /// The number of connection attempts that reached the device.
    public let links: Int
    /// The maximum number of chunks in flight: sent to a link, and not yet acknowledged by an offset that has reached the host.
    public let maximumChunksInFlight: Int
    /// A hash of all transmitted values and their times.
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

/// Observes a link from the host's side and counts the chunks in flight. A chunk is in flight until an offset that has reached the host
/// acknowledges it.
struct WindowObserver {
    private(set) var maximum = 0
    private var acknowledged: UInt16 = 0

    /// Resets the count for a new connection. Its sequence numbers start at 0.
    mutating func restart() { acknowledged = 0 }

    mutating func hostSends(_ chunk: [UInt8]) {
        guard chunk.count > 2 else { return }
        let inFlight = Self.sequence(chunk, 0) &+ 1 &- acknowledged
        // A larger number means a stale chunk, sent before the host received a rewind.
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

    /// Ignores an older number. The values of the two characteristics may arrive in another order.
    private mutating func acknowledge(_ next: UInt16) {
        if next &- acknowledged < 0x8000 { acknowledged = next }
    }

    private static func sequence(_ bytes: [UInt8], _ offset: Int) -> UInt16 {
        UInt16(bytes[offset]) | UInt16(bytes[offset + 1]) << 8
    }
}

/// Counts the link-layer packets of the current value in one direction. A value may start in one connection event and end in a later
/// one.
struct PacketMeter {
    private var left = 0

    var isInMidValue: Bool { left > 0 }

    /// Sends packets of a value within the remaining budget of an event. Returns true if the value is complete at the receiver.
    ///
    /// - Parameters:
    ///   - length: the length of the value in bytes.
    ///   - budget: the packets left in the connection event.
    mutating func carries(_ length: Int, spending budget: inout Int) -> Bool {
        if left == 0 { left = RadioModel.packets(forValueOf: length) }
        let sent = min(left, budget)
        left -= sent
        budget -= sent
        return left == 0
    }
}

/// A running hash (64-bit FNV-1a) of all transmitted values and their times. Two runs with the same hash had the same sequence of
/// values.
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

import OTAUpdate

/// Watches a link as the profile's host should, and finds out how many chunks it has in flight: those given to the link
/// and not yet acknowledged by a position that has reached the host.
struct WindowObserver {
    private(set) var maximum = 0
    private var acknowledged: UInt16 = 0

    /// A new connection counts from 0.
    mutating func restart() { acknowledged = 0 }

    mutating func hostSends(_ chunk: [UInt8]) {
        guard chunk.count > 2 else { return }
        let inFlight = Self.sequence(chunk, 0) &+ 1 &- acknowledged
        // More is not in flight but stale: from before a rewind that the host has yet to hear of.
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

    /// What was told on the other characteristic before is older.
    private mutating func acknowledge(_ next: UInt16) {
        if next &- acknowledged < 0x8000 { acknowledged = next }
    }

    private static func sequence(_ bytes: [UInt8], _ offset: Int) -> UInt16 {
        UInt16(bytes[offset]) | UInt16(bytes[offset + 1]) << 8
    }
}

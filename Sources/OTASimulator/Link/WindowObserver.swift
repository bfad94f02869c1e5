import OTAUpdate

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

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

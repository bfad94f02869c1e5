/// Counts the link-layer packets of the value on its way in one direction. It may begin in one connection event and end in
/// the next.
struct PacketMeter {
    private var left = 0

    var isInMidValue: Bool { left > 0 }

    /// Spends what is left of an event's packets on a value of so many bytes. True: all of it is over there now.
    mutating func carries(_ length: Int, spending budget: inout Int) -> Bool {
        if left == 0 { left = RadioModel.packets(forValueOf: length) }
        let sent = min(left, budget)
        left -= sent
        budget -= sent
        return left == 0
    }
}

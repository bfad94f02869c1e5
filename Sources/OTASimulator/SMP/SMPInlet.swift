/// What becomes of the values that are written: each a packet, or parts of packets.
struct SMPInlet {
    let reassembles: Bool
    let bufferSize: Int
    private var collected: [UInt8] = []

    init(reassembles: Bool, bufferSize: Int) {
        self.reassembles = reassembles
        self.bufferSize = bufferSize
    }

    mutating func reset() { collected = [] }

    /// The packets that are whole with this value, but for those that no buffer holds.
    mutating func take(_ value: [UInt8]) -> [[UInt8]] {
        guard reassembles else { return value.count > bufferSize ? [] : [value] }
        collected += value
        var packets: [[UInt8]] = []
        while collected.count >= 8 {
            let length = 8 + Int(collected[2]) << 8 + Int(collected[3])
            guard collected.count >= length else { break }
            if length <= bufferSize { packets.append(Array(collected.prefix(length))) }
            collected.removeFirst(length)
        }
        return packets
    }
}

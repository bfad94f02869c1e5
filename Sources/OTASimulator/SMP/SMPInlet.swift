/// Assembles packets from written values. Each value is a packet or a part of a packet, as in Zephyr (`smp_bt.c`, `smp_reassembly.c`).
struct SMPInlet {
    private static let headerLength = 8

    let reassembles: Bool
    let bufferSize: Int
    private var collected: [UInt8] = []

    init(reassembles: Bool, bufferSize: Int) {
        self.reassembles = reassembles
        self.bufferSize = bufferSize
    }

    /// Whether an incomplete packet occupies a buffer.
    var isInMidPacket: Bool { !collected.isEmpty }

    mutating func reset() { collected = [] }

    /// Adds a value. The first value of a packet occupies a buffer. If no buffer is free, that value is lost, and the next value is treated
    /// as the start of a packet.
    ///
    /// - Parameter hasRoom: whether a buffer is free.
    /// - Returns: the packet that this value completes; nil if the packet is incomplete or discarded.
    mutating func take(_ value: [UInt8], hasRoom: Bool) -> [UInt8]? {
        guard reassembles else { return hasRoom && value.count <= bufferSize ? value : nil }
        if collected.isEmpty {
            guard hasRoom, value.count >= Self.headerLength, Self.length(of: value) <= bufferSize else { return nil }
        }
        collected += value
        let length = Self.length(of: collected)
        guard collected.count >= length else { return nil }
        defer { collected = [] }
        // If the value is longer than the rest of the packet, the whole packet is discarded.
        return collected.count == length ? collected : nil
    }

    private static func length(of packet: [UInt8]) -> Int { headerLength + Int(packet[2]) << 8 + Int(packet[3]) }
}

/// What becomes of the values that are written: each a packet, or parts of packets, as Zephyr takes them (`smp_bt.c`,
/// `smp_reassembly.c`).
struct SMPInlet {
    private static let headerLength = 8

    let reassembles: Bool
    let bufferSize: Int
    private var collected: [UInt8] = []

    init(reassembles: Bool, bufferSize: Int) {
        self.reassembles = reassembles
        self.bufferSize = bufferSize
    }

    /// A packet that is not whole yet has a buffer.
    var isInMidPacket: Bool { !collected.isEmpty }

    mutating func reset() { collected = [] }

    /// A packet takes its buffer with its first value. Where none is free, that value is lost, and the next one is taken for
    /// a beginning.
    ///
    /// - Parameter hasRoom: whether a buffer is free.
    /// - Returns: the packet that is whole with this value.
    mutating func take(_ value: [UInt8], hasRoom: Bool) -> [UInt8]? {
        guard reassembles else { return hasRoom && value.count <= bufferSize ? value : nil }
        if collected.isEmpty {
            guard hasRoom, value.count >= Self.headerLength, Self.length(of: value) <= bufferSize else { return nil }
        }
        collected += value
        let length = Self.length(of: collected)
        guard collected.count >= length else { return nil }
        defer { collected = [] }
        // A value longer than the rest of its packet spoils all of it.
        return collected.count == length ? collected : nil
    }

    private static func length(of packet: [UInt8]) -> Int { headerLength + Int(packet[2]) << 8 + Int(packet[3]) }
}

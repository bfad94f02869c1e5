import OTAUpdate

/// A serial line that carries packets without frames, and the receiver of MCUboot's serial recovery
/// (`boot_serial_input_raw` in boot/boot_serial/src/boot_serial.c): the length in a packet's header determines the end of the packet.
///
/// The line loses runs of bytes: MCUboot's interrupt handler drops bytes while all its buffers are full.
struct RawLine {
    /// The probability that a packet loses bytes.
    let loss: Double
    var random: SplitMix64
    private var collected: [UInt8] = []
    private var last = Duration.zero

    private static let headerLength = 8
    /// The size of MCUboot's receive buffer in bytes.
    private static let longestPacket = 1024
    /// The default of `BOOT_SERIAL_RAW_PROTOCOL_INPUT_TIMEOUT_MS`.
    private static let discardTime = Duration.seconds(3)
    /// The maximum number of bytes that the receiver processes at once.
    private static let fragment = 16

    init(loss: Double, seed: UInt64) {
        self.loss = loss
        random = SplitMix64(seed: seed)
    }

    /// Returns the packets that the device takes from these bytes.
    mutating func deliver(_ bytes: [UInt8], at now: Duration) -> [[UInt8]] {
        if now - last >= Self.discardTime { collected = [] }
        last = now
        var bytes = bytes
        if Double.random(in: 0..<1, using: &random) < loss {
            let start = Int.random(in: bytes.indices, using: &random)
            bytes.removeSubrange(start..<min(bytes.count, start + Int.random(in: 1...40, using: &random)))
        }
        var packets: [[UInt8]] = []
        for start in stride(from: 0, to: bytes.count, by: Self.fragment) {
            collected += bytes[start..<min(bytes.count, start + Self.fragment)]
            while collected.count >= Self.headerLength {
                let length = Self.headerLength + Int(collected[2]) << 8 + Int(collected[3])
                guard [0, 2].contains(collected[0] & 7), length <= Self.longestPacket else {
                    collected = []
                    break
                }
                guard collected.count >= length else { break }
                packets.append(Array(collected.prefix(length)))
                collected.removeFirst(length)
            }
        }
        return packets
    }
}

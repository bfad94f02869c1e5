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

/// SplitMix64: the same sequence on every machine.
struct SeededGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}

extension SeededGenerator {
    /// `bytes` with one to four of: a byte replaced, a bit turned, bytes taken out, bytes put in, the end cut off.
    mutating func mutation(of bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...4, using: &self) where !bytes.isEmpty {
            let index = Int.random(in: bytes.indices, using: &self)
            switch Int.random(in: 0..<8, using: &self) {
            case 0...2: bytes[index] = UInt8.random(in: .min ... .max, using: &self)
            case 3...4: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &self)
            case 5: bytes.removeSubrange(index..<min(bytes.count, index + Int.random(in: 1...4, using: &self)))
            case 6: bytes.insert(contentsOf: [0, 1, 0xFF].prefix(Int.random(in: 1...3, using: &self)), at: index)
            default: bytes.removeLast(bytes.count - index)
            }
        }
        return bytes
    }
}

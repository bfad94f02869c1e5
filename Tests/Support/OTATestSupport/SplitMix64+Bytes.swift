public import OTAUpdate

extension SplitMix64 {
    /// Returns `count` random bytes.
    public mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
    }

    /// Returns a copy of `bytes` with 1 to 4 random changes. A change replaces a byte, flips a bit, removes bytes, inserts bytes, or
    /// removes all bytes from a random position to the end. An empty array does not change.
    public mutating func mutation(of bytes: [UInt8]) -> [UInt8] {
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

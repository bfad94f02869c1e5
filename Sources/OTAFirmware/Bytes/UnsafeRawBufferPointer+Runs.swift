extension UnsafeRawBufferPointer {
    /// The part from `start` on, `count` bytes, both within bounds.
    func part(_ start: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[start..<(start + count)])
    }

    /// The exclusive or of all bytes.
    func exclusiveOr() -> UInt8 {
        var wide: UInt64 = 0
        var index = 0
        while count - index >= 8 {
            wide ^= loadUnaligned(fromByteOffset: index, as: UInt64.self)
            index += 8
        }
        var result = (0..<8).reduce(UInt8(0)) { $0 ^ UInt8(truncatingIfNeeded: wide >> ($1 * 8)) }
        while index < count {
            result ^= self[index]
            index += 1
        }
        return result
    }

    /// How many bytes at the start are `value`.
    func countOfLeading(_ value: UInt8) -> Int {
        let wide = UInt64(value) &* 0x0101_0101_0101_0101
        var index = 0
        while count - index >= 8, loadUnaligned(fromByteOffset: index, as: UInt64.self) == wide { index += 8 }
        while index < count, self[index] == value { index += 1 }
        return index
    }
}

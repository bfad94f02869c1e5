/// A fuzzer's bytes, read as decisions. Behind their end all are zero.
struct FuzzInput {
    private let bytes: [UInt8]
    private var index = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isEmpty: Bool { index >= bytes.count }

    mutating func next() -> UInt8 {
        guard index < bytes.count else { return 0 }
        index += 1
        return bytes[index - 1]
    }

    mutating func nextNumber() -> UInt32 { (0..<4).reduce(0) { number, _ in number << 8 | UInt32(next()) } }

    /// A first byte from here on gives a session a device that lies by a plan, which the other bytes choose.
    static let hostile: UInt8 = 0xF0

    mutating func number(in range: ClosedRange<Int>) -> Int { range.lowerBound + Int(next()) % range.count }

    mutating func bytes(upTo count: Int) -> [UInt8] {
        let end = min(index + count, bytes.count)
        defer { index = end }
        return Array(bytes[index..<end])
    }
}

/// Reads consecutive values in DER, such as the members of a SEQUENCE.
struct DERReader {
    struct Value {
        let tag: UInt8
        let contents: UnsafeRawBufferPointer
        /// The value with its tag and its length.
        let encoded: UnsafeRawBufferPointer
    }

    static let integer: UInt8 = 0x02
    static let bitString: UInt8 = 0x03
    static let octetString: UInt8 = 0x04
    static let identifier: UInt8 = 0x06
    static let sequence: UInt8 = 0x30

    private let bytes: UnsafeRawBufferPointer
    private var index = 0

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    var isAtEnd: Bool { index == bytes.count }

    /// Returns the next value. Returns nil at the end, and if the bytes are malformed or the length has more than 2 bytes.
    mutating func next() -> Value? {
        guard bytes.count - index >= 2 else { return nil }
        let start = index
        var length = Int(bytes[index + 1])
        var header = 2
        if length >= 0x80 {
            header += length & 0x7F
            guard header <= 4, header > 2, bytes.count - index >= header else { return nil }
            length = bytes[(index + 2)..<(index + header)].reduce(0) { $0 << 8 | Int($1) }
        }
        guard bytes.count - index - header >= length else { return nil }
        index += header + length
        return Value(
            tag: bytes[start],
            contents: UnsafeRawBufferPointer(rebasing: bytes[(start + header)..<index]),
            encoded: UnsafeRawBufferPointer(rebasing: bytes[start..<index]))
    }

    /// Returns the tag and the length of a value with `length` bytes of contents.
    static func header(_ tag: UInt8, length: Int) -> [UInt8] {
        switch length {
        case ..<0x80: [tag, UInt8(length)]
        case ..<0x100: [tag, 0x81, UInt8(length)]
        default: [tag, 0x82, UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF)]
        }
    }
}

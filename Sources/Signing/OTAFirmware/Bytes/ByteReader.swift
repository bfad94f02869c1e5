/// Reads consecutive integers and byte sequences, and never reads past the end.
///
/// `reader(over:)` returns a reader for a part of the input. The offsets of this reader also count from the start of the whole input.
/// Therefore an error in a part of a file has the position in the whole file.
public struct ByteReader: Sendable {
    /// The error of a call that requests more bytes than the reader has.
    public struct Truncated: Error, Sendable, Hashable {
        /// The position of the first requested byte.
        public let offset: Int
        /// The number of requested bytes.
        public let expected: Int
        /// The number of available bytes, which is less than `expected`.
        public let found: Int

        package init(offset: Int, expected: Int, found: Int) {
            self.offset = offset
            self.expected = expected
            self.found = found
        }
    }

    public enum ByteOrder: Sendable {
        case littleEndian, bigEndian
    }

    private var rest: ArraySlice<UInt8>
    /// The offset of the next byte.
    public private(set) var offset: Int

    /// Creates a reader at the first byte of `bytes`.
    ///
    /// - Parameter offset: the position of the first byte of `bytes` in the whole input.
    public init(_ bytes: ArraySlice<UInt8>, offset: Int = 0) {
        self.rest = bytes
        self.offset = offset
    }

    public init(_ bytes: [UInt8], offset: Int = 0) {
        self.init(bytes[...], offset: offset)
    }

    /// The number of unread bytes.
    public var remaining: Int { rest.count }

    /// The unread bytes.
    public var unread: ArraySlice<UInt8> { rest }

    /// Reads an unsigned integer of at most 128 bits. The byte order is little-endian by default.
    public mutating func read<Integer: FixedWidthInteger & UnsignedInteger>(
        _ type: Integer.Type = Integer.self, _ order: ByteOrder = .littleEndian
    ) throws(Truncated) -> Integer {
        let size = Integer.bitWidth / 8
        guard size <= rest.count else { throw Truncated(offset: offset, expected: size, found: rest.count) }
        let word = try readWord(of: min(size, 8), order)
        guard size > 8 else { return Integer(truncatingIfNeeded: word) }
        let next = try readWord(of: size - 8, order)
        let (high, low) = order == .bigEndian ? (word, next) : (next, word)
        return Integer(truncatingIfNeeded: high) << 64 | Integer(truncatingIfNeeded: low)
    }

    // Other modules call the generic `read` for each integer of each frame. The compiler does not specialise `read` for other modules,
    // and loops in generic code are slow. Therefore the loops are in this function, which is not generic.
    private mutating func readWord(of count: Int, _ order: ByteOrder) throws(Truncated) -> UInt64 {
        let bytes = try read(count)
        var word: UInt64 = 0
        switch order {
        case .bigEndian: for byte in bytes { word = word << 8 | UInt64(byte) }
        case .littleEndian: for byte in bytes.reversed() { word = word << 8 | UInt64(byte) }
        }
        return word
    }

    /// Reads the next `count` bytes. A negative count reads no bytes.
    public mutating func read(_ count: Int) throws(Truncated) -> ArraySlice<UInt8> {
        guard count <= rest.count else { throw Truncated(offset: offset, expected: count, found: rest.count) }
        let bytes = rest.prefix(max(count, 0))
        rest = rest.dropFirst(bytes.count)
        offset += bytes.count
        return bytes
    }

    /// Returns a new reader for the next `count` bytes. The current reader continues after these bytes.
    public mutating func reader(over count: Int) throws(Truncated) -> ByteReader {
        let start = offset
        return ByteReader(try read(count), offset: start)
    }
}

/// Appends integers and byte sequences to an array.
public struct ByteWriter: Sendable {
    /// The written bytes.
    public private(set) var bytes: [UInt8] = []

    public init(reservingCapacity capacity: Int = 0) {
        bytes.reserveCapacity(capacity)
    }

    /// Appends an unsigned integer in its full width. The byte order is little-endian by default.
    public mutating func write<Integer: FixedWidthInteger & UnsignedInteger>(
        _ value: Integer, _ order: ByteReader.ByteOrder = .littleEndian
    ) {
        withUnsafeBytes(of: order == .bigEndian ? value.bigEndian : value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    public mutating func write(_ run: some Sequence<UInt8>) {
        bytes.append(contentsOf: run)
    }

    public mutating func writeZeros(_ count: Int) {
        bytes.append(contentsOf: repeatElement(0, count: count))
    }
}

/// Reads integers and runs of bytes one behind the other, and never past the end.
///
/// A reader made by `reader(over:)` counts offsets on from where it begins, so that an error found in a part of a file
/// names the offset in the file.
public struct ByteReader: Sendable {
    /// The bytes end before what was to be read.
    public struct Truncated: Error, Sendable, Hashable {
        /// Where the thing to be read begins.
        public let offset: Int
        /// Its length in bytes.
        public let expected: Int
        /// The bytes that are there, fewer than `expected`.
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
    /// The offset of the byte that is read next.
    public private(set) var offset: Int

    /// A reader at the first of `bytes`, whose offset is 0 unless said otherwise.
    public init(_ bytes: ArraySlice<UInt8>, offset: Int = 0) {
        self.rest = bytes
        self.offset = offset
    }

    public init(_ bytes: [UInt8], offset: Int = 0) {
        self.init(bytes[...], offset: offset)
    }

    /// The number of bytes not yet read.
    public var remaining: Int { rest.count }

    /// The bytes not yet read.
    public var unread: ArraySlice<UInt8> { rest }

    /// An unsigned integer of at most 128 bits, little-endian unless said otherwise.
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

    /// Not generic: other modules call `read` for each integer of each frame, and it is not specialised for them.
    private mutating func readWord(of count: Int, _ order: ByteOrder) throws(Truncated) -> UInt64 {
        let bytes = try read(count)
        var word: UInt64 = 0
        switch order {
        case .bigEndian: for byte in bytes { word = word << 8 | UInt64(byte) }
        case .littleEndian: for byte in bytes.reversed() { word = word << 8 | UInt64(byte) }
        }
        return word
    }

    /// The next `count` bytes. A negative count reads none.
    public mutating func read(_ count: Int) throws(Truncated) -> ArraySlice<UInt8> {
        guard count <= rest.count else { throw Truncated(offset: offset, expected: count, found: rest.count) }
        let bytes = rest.prefix(max(count, 0))
        rest = rest.dropFirst(bytes.count)
        offset += bytes.count
        return bytes
    }

    /// A reader over the next `count` bytes, which this one passes over.
    public mutating func reader(over count: Int) throws(Truncated) -> ByteReader {
        let start = offset
        return ByteReader(try read(count), offset: start)
    }
}

/// Appends integers and runs of bytes one behind the other.
public struct ByteWriter: Sendable {
    /// What was written so far.
    public private(set) var bytes: [UInt8] = []

    public init(reservingCapacity capacity: Int = 0) {
        bytes.reserveCapacity(capacity)
    }

    /// An unsigned integer in its full width, little-endian unless said otherwise.
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

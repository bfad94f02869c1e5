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

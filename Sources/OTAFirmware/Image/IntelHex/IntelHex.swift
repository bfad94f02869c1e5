/// The image that Intel HEX text describes: all bytes from the lowest address to the highest, gaps filled with 0xFF as
/// erased flash is.
public struct IntelHex: Sendable, Hashable {
    /// 64 MiB.
    public static let maximumSpan = 64 << 20

    /// The address of the first byte.
    public let startAddress: UInt32
    public let bytes: [UInt8]

    /// An image of more than `maximumSpan` bytes, gaps included, is refused.
    public init(parsing text: [UInt8], maximumSpan: Int = Self.maximumSpan) throws(IntelHexError) {
        self = try text.withUnsafeBufferPointer { text throws(IntelHexError) in
            try IntelHex(parsing: UnsafeRawBufferPointer(text), maximumSpan: maximumSpan)
        }
    }

    /// Reads the text twice: for its extent, and for its bytes.
    private init(parsing text: UnsafeRawBufferPointer, maximumSpan: Int) throws(IntelHexError) {
        let extent = try Self.extent(of: text, maximumSpan: maximumSpan)
        var image = [UInt8](repeating: 0xFF, count: extent.count)
        // One bit for each byte that has its data.
        var written = [UInt8](repeating: 0, count: (extent.count + 7) / 8)
        var records = IntelHexRecords(text)
        while let record = try records.next() {
            // A record without data can have any address, also one below the extent.
            if records.data.isEmpty { continue }
            var position = Int(record.address - extent.lowerBound)
            for byte in records.data {
                let bit: UInt8 = 1 << (position & 7)
                guard written[position >> 3] & bit == 0 else {
                    throw IntelHexError(
                        .overlappingData, line: record.line,
                        "address \(addressText(extent.lowerBound + UInt64(position))) has data already")
                }
                written[position >> 3] |= bit
                image[position] = byte
                position += 1
            }
        }
        startAddress = UInt32(truncatingIfNeeded: extent.lowerBound)
        bytes = image
    }

    /// From the lowest address to the one behind the highest.
    private static func extent(
        of text: UnsafeRawBufferPointer, maximumSpan: Int
    ) throws(IntelHexError) -> Range<UInt64> {
        var lowest = UInt64.max
        var end: UInt64 = 0
        var records = IntelHexRecords(text)
        while let record = try records.next() {
            if records.data.isEmpty { continue }
            lowest = min(lowest, record.address)
            end = max(end, record.address + UInt64(records.data.count))
            guard end - lowest <= maximumSpan else {
                throw try IntelHexRegions(text).tooFarApart(line: record.line)
            }
        }
        guard lowest < end else { throw IntelHexError(.noData, line: records.line, "there are no data in it") }
        return lowest..<end
    }
}

/// `0x` and eight hex digits.
func addressText(_ address: UInt64) -> String {
    let digits = String(address, radix: 16)
    return "0x" + String(repeating: "0", count: max(0, 8 - digits.count)) + digits
}

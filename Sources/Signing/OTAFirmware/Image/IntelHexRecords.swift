/// An iterator over the data records of Intel HEX text.
///
/// The source of the format is Intel, "Hexadecimal Object File Format Specification", revision A, 1988.
struct IntelHexRecords: HexRecords {
    private var lines: HexLines
    private var base: UInt64 = 0
    private var baseIsSegment = false

    init(_ text: UnsafeRawBufferPointer) {
        lines = HexLines(text, .intelHex)
    }

    var line: Int { lines.number }

    /// The bytes of the current record: length, address (2 bytes, big-endian), type, data and checksum.
    private var record: [UInt8] { lines.bytes }

    var data: ArraySlice<UInt8> { record.dropFirst(4).dropLast() }

    mutating func next() throws(HexError) -> UInt64? {
        while try readRecord() {
            let offset = UInt64(record[1]) << 8 | UInt64(record[2])
            switch record[3] {
            case 0:
                let end = (baseIsSegment ? 0 : base) + offset + UInt64(data.count)
                guard end <= (baseIsSegment ? 0x1_0000 : 0x1_0000_0000) else {
                    throw lines.error(
                        .badAddress, "data past the end of the \(baseIsSegment ? "segment" : "32-bit address space")")
                }
                return base + offset
            case 1:
                try expectDataLength(0)
                try lines.expectEnd()
                return nil
            case 2, 4:
                try expectDataLength(2)
                baseIsSegment = record[3] == 2
                base = (UInt64(record[4]) << 8 | UInt64(record[5])) << (baseIsSegment ? 4 : 16)
            case 3, 5:
                // These records contain the start address of the program, which an image does not need.
                try expectDataLength(4)
            default:
                throw lines.error(.unknownRecordType, "record type \(record[3]), expected 0 to 5")
            }
        }
        throw lines.error(.missingEnd, "the text ends without an end record (:00000001FF)")
    }

    /// Decodes the next record. Returns false at the end of the text.
    private mutating func readRecord() throws(HexError) -> Bool {
        guard lines.skipToRecord() else { return false }
        let start = try lines.character()
        guard start == UInt8(ascii: ":") else {
            throw lines.error(.badRecord, "expected a colon, found \(quoted([start]))")
        }
        // A record without data has five bytes: the length, the address (2 bytes), the type and the checksum.
        try lines.decode(overhead: 5)
        let sum = record.reduce(0, &+)
        guard sum == 0 else {
            let wanted = Hex.encode([(record.last ?? 0) &- sum])
            throw lines.error(.badChecksum, "checksum \(Hex.encode(record.suffix(1))), expected \(wanted)")
        }
        return true
    }

    private func expectDataLength(_ length: Int) throws(HexError) {
        guard data.count == length else {
            throw lines.error(
                .badRecord, "a record of type \(record[3]) has \(data.count) bytes of data, expected \(length)")
        }
    }
}

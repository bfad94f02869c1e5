/// An iterator over the data records of Motorola S-records.
///
/// The types are: S0 a header, S1 to S3 data with an address of 2 to 4 bytes, S5 and S6 the number of data records, S7 to S9 the end and the
/// start address of the program. S4 is reserved. The source of the format is Motorola, "M68000 Family Programmer's Reference Manual", 1992,
/// appendix C; S6 is in the manual page srec_motorola(5) of SRecord.
///
/// The text must end with an end record or with a correct number of data records (`srec_cat` writes only the latter for a text without a
/// start address). Otherwise the end of the text may be missing.
struct SRecords: HexRecords {
    private var lines: HexLines
    private var type: UInt8 = 0
    private var dataRecords: UInt64 = 0
    private var isCounted = false

    init(_ text: UnsafeRawBufferPointer) {
        lines = HexLines(text, .sRecord)
    }

    var line: Int { lines.number }

    /// The number of bytes of the current record's address field. For the types 5 and 6, the field contains the number of data records.
    private var addressLength: Int { [2, 2, 3, 4, 0, 2, 3, 4, 3, 2][Int(type)] }

    /// The bytes of the current record: length, address (big-endian), data and checksum.
    private var record: [UInt8] { lines.bytes }

    var data: ArraySlice<UInt8> { record.dropFirst(1 + addressLength).dropLast() }

    private var address: UInt64 { record.dropFirst().prefix(addressLength).reduce(0) { $0 << 8 | UInt64($1) } }

    mutating func next() throws(HexError) -> UInt64? {
        while try readRecord() {
            isCounted = false
            switch type {
            case 0: break
            case 1, 2, 3:
                dataRecords += 1
                let bits = 8 * addressLength
                guard address + UInt64(data.count) <= 1 << bits else {
                    throw lines.error(.badAddress, "data past the end of the \(bits)-bit address space")
                }
                return address
            case 5, 6:
                try expectNoData()
                // A record S5 of a text with more records than fit into the field contains the low bits of the number.
                guard address == dataRecords & (1 << UInt64(8 * addressLength) - 1) else {
                    throw lines.error(
                        .wrongRecordCount,
                        "the text has \(dataRecords) data records; the record S\(type) requires \(address)")
                }
                isCounted = true
            default:
                try expectNoData()
                try lines.expectEnd()
                return nil
            }
        }
        guard isCounted else {
            throw lines.error(
                .missingEnd,
                "the text ends without an end record (S7, S8 or S9) and without a number of records (S5 or S6)")
        }
        return nil
    }

    /// Decodes the next record. Returns false at the end of the text.
    private mutating func readRecord() throws(HexError) -> Bool {
        guard lines.skipToRecord() else { return false }
        let start = try lines.character()
        guard start == UInt8(ascii: "S") else {
            throw lines.error(.badRecord, "expected the letter S, found \(quoted([start]))")
        }
        let digit = try lines.character()
        guard let value = Hex.value(ofDigit: digit), value <= 9, value != 4 else {
            throw lines.error(.unknownRecordType, "record type S\(escaped([digit])), expected S0 to S3 or S5 to S9")
        }
        type = value
        // The length byte counts all bytes after it.
        try lines.decode(overhead: 1)
        guard record.count >= 2 + addressLength else {
            throw lines.error(
                .badRecord, "a record S\(type) has \(record.count - 1) bytes, expected at least \(addressLength + 1)")
        }
        let sum = record.reduce(0, &+)
        guard sum == 0xFF else {
            let wanted = Hex.encode([(record.last ?? 0) &+ (0xFF &- sum)])
            throw lines.error(.badChecksum, "checksum \(Hex.encode(record.suffix(1))), expected \(wanted)")
        }
        return true
    }

    private func expectNoData() throws(HexError) {
        guard data.isEmpty else {
            throw lines.error(.badRecord, "a record S\(type) has \(data.count) bytes of data, expected 0")
        }
    }
}

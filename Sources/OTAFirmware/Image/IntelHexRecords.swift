/// An iterator over the data records of Intel HEX text. The iterator also checks the records of other types, but does not return these
/// records.
///
/// The source of the format is Intel, "Hexadecimal Object File Format Specification", revision A, 1988.
struct IntelHexRecords {
    struct DataRecord {
        /// The address of the record's first byte.
        let address: UInt64
        let line: Int
    }

    private let text: UnsafeRawBufferPointer
    private var index = 0
    /// The number of the line that was read last. The first line has the number 1.
    private(set) var line = 0
    private var base: UInt64 = 0
    private var baseIsSegment = false
    /// The bytes of the current record: length, address (2 bytes, big-endian), type, data and checksum.
    private(set) var record: [UInt8] = []

    init(_ text: UnsafeRawBufferPointer) {
        self.text = text
        record.reserveCapacity(260)
    }

    /// The data of the current record.
    var data: ArraySlice<UInt8> { record.dropFirst(4).dropLast() }

    /// Returns the next data record. Returns nil after the end record.
    mutating func next() throws(IntelHexError) -> DataRecord? {
        while try readLine() {
            let offset = UInt64(record[1]) << 8 | UInt64(record[2])
            switch record[3] {
            case 0:
                let end = (baseIsSegment ? 0 : base) + offset + UInt64(data.count)
                guard end <= (baseIsSegment ? 0x1_0000 : 0x1_0000_0000) else {
                    throw error(
                        .badAddress, "data past the end of the \(baseIsSegment ? "segment" : "32-bit address space")")
                }
                return DataRecord(address: base + offset, line: line)
            case 1:
                try expectDataLength(0)
                try expectEndOfText()
                return nil
            case 2, 4:
                try expectDataLength(2)
                baseIsSegment = record[3] == 2
                base = (UInt64(record[4]) << 8 | UInt64(record[5])) << (baseIsSegment ? 4 : 16)
            case 3, 5:
                // These records contain the start address of the program, which an image does not need.
                try expectDataLength(4)
            default:
                throw error(.unknownRecordType, "record type \(record[3]), expected 0 to 5")
            }
        }
        throw error(.missingEnd, "the text ends without an end record (:00000001FF)")
    }

    /// Decodes the next line that is not empty, and stores the bytes in `record`. Returns false at the end of the text.
    private mutating func readLine() throws(IntelHexError) -> Bool {
        repeat {
            line += 1
            guard index < text.count else { return false }
        } while skipEndOfLine()
        guard text[index] == UInt8(ascii: ":") else {
            throw error(.badRecord, "expected a colon, found \(quoted(text[index..<(index + 1)]))")
        }
        index += 1
        record.removeAll(keepingCapacity: true)
        // A record without data has five bytes: the length, the address (2 bytes), the type and the checksum.
        var count = 5
        var sum: UInt8 = 0
        while record.count < count {
            guard index + 1 < text.count else { throw error(.badRecord, "the line ends too early") }
            let high = Self.values[Int(text[index])]
            let low = Self.values[Int(text[index + 1])]
            guard high | low < 16 else { throw error(.badRecord, "expected \(count) pairs of hex digits") }
            let byte = high << 4 | low
            if record.isEmpty { count += Int(byte) }
            sum &+= byte
            record.append(byte)
            index += 2
        }
        guard index == text.count || skipEndOfLine() else {
            throw error(.badRecord, "the line is longer than its length byte states")
        }
        guard sum == 0 else {
            let wanted = Hex.encode([(record.last ?? 0) &- sum])
            throw error(.badChecksum, "checksum \(Hex.encode(record.suffix(1))), expected \(wanted)")
        }
        return true
    }

    /// Skips a line end, which is LF or CR LF. Returns false if the next bytes are not a line end.
    private mutating func skipEndOfLine() -> Bool {
        let length = text[index] == 0x0D ? 2 : 1
        guard index + length <= text.count, text[index + length - 1] == 0x0A else { return false }
        index += length
        return true
    }

    private func expectDataLength(_ length: Int) throws(IntelHexError) {
        guard data.count == length else {
            throw error(
                .badRecord, "a record of type \(record[3]) has \(data.count) bytes of data, expected \(length)")
        }
    }

    private mutating func expectEndOfText() throws(IntelHexError) {
        let last = line
        repeat {
            line += 1
            guard index < text.count else {
                line = last
                return
            }
        } while skipEndOfLine()
        throw error(.recordAfterEnd, "there is text after the end record")
    }

    private func error(_ code: IntelHexError.Code, _ message: String) -> IntelHexError {
        IntelHexError(code, line: line, message)
    }

    /// The value of each ASCII hex digit, and 255 for every other byte.
    private static let values = (UInt8.min...UInt8.max).map { Hex.value(ofDigit: $0) ?? 255 }
}

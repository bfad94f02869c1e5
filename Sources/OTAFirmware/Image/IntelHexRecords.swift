/// The data records of Intel HEX text (Intel, "Hexadecimal Object File Format Specification", revision A, 1988), one
/// after the other, with their addresses. Everything else in the text is checked on the way.
struct IntelHexRecords {
    struct DataRecord {
        /// Of its first byte.
        let address: UInt64
        let line: Int
    }

    private let text: UnsafeRawBufferPointer
    private var index = 0
    /// The number of the line read last, counted from 1.
    private(set) var line = 0
    private var base: UInt64 = 0
    private var baseIsSegment = false
    /// The record being read, from its length byte to its checksum.
    private(set) var record: [UInt8] = []

    init(_ text: UnsafeRawBufferPointer) {
        self.text = text
        record.reserveCapacity(260)
    }

    /// The bytes of the data record read last.
    var data: ArraySlice<UInt8> { record.dropFirst(4).dropLast() }

    /// Nil behind the end record.
    mutating func next() throws(IntelHexError) -> DataRecord? {
        while try readLine() {
            let offset = UInt64(record[1]) << 8 | UInt64(record[2])
            switch record[3] {
            case 0:
                let end = (baseIsSegment ? 0 : base) + offset + UInt64(data.count)
                guard end <= (baseIsSegment ? 0x1_0000 : 0x1_0000_0000) else {
                    throw error(.badAddress, "data beyond the end of the \(baseIsSegment ? "segment" : "addresses")")
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
                // Where execution starts: nothing for an image.
                try expectDataLength(4)
            default:
                throw error(.unknownRecordType, "record type \(record[3]), expected 0 to 5")
            }
        }
        throw error(.missingEnd, "the text ends without an end record (:00000001FF)")
    }

    /// Reads the next line that is not empty into `record`; false at the end of the text.
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
        // Length, address, type and checksum make five bytes.
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
            throw error(.badRecord, "the line is longer than its length byte says")
        }
        guard sum == 0 else {
            let wanted = Hex.encode([(record.last ?? 0) &- sum])
            throw error(.badChecksum, "checksum \(Hex.encode(record.suffix(1))), expected \(wanted)")
        }
        return true
    }

    /// LF or CR LF.
    private mutating func skipEndOfLine() -> Bool {
        let length = text[index] == 0x0D ? 2 : 1
        guard index + length <= text.count, text[index + length - 1] == 0x0A else { return false }
        index += length
        return true
    }

    private func expectDataLength(_ length: Int) throws(IntelHexError) {
        guard data.count == length else {
            throw error(
                .badRecord, "a record of type \(record[3]) with \(data.count) bytes of data, expected \(length)")
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
        throw error(.recordAfterEnd, "the end record is not the last one")
    }

    private func error(_ code: IntelHexError.Code, _ message: String) -> IntelHexError {
        IntelHexError(code, line: line, message)
    }

    /// The value of each character as a hex digit, 255 for those that are none.
    private static let values = (UInt8.min...UInt8.max).map { Hex.value(ofDigit: $0) ?? 255 }
}

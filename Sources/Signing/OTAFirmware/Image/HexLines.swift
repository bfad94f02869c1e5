/// An iterator over the lines of hex text. It skips a byte order mark, blank lines and comments, and decodes the pairs of hex digits.
///
/// A comment is a line that begins with `;`, `#` or `/`. The two formats define no comments, but build scripts write them, and other tools
/// accept them. The iterator accepts no other text. A damaged line must never be skipped, because its bytes would become a gap. Therefore a
/// comment that ends with the hex digits of a record is not skipped: one wrong bit changes the colon of a record to `;`.
struct HexLines {
    let format: HexFormat
    private let text: UnsafeRawBufferPointer
    private var index: Int
    /// The number of the line that was read last. The first line has the number 1.
    private(set) var number = 0
    /// The decoded bytes of the current line.
    private(set) var bytes: [UInt8] = []

    init(_ text: UnsafeRawBufferPointer, _ format: HexFormat = .intelHex) {
        self.text = text
        self.format = format
        index = text.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        bytes.reserveCapacity(260)
    }

    /// The rest of the text.
    var unread: UnsafeRawBufferPointer { text.part(index, text.count - index) }

    /// Goes to the first character of the next line that is not blank or a comment. Returns false at the end of the text.
    mutating func skipToRecord() -> Bool {
        while true {
            number += 1
            skipSpaces()
            guard index < text.count else { return false }
            if skipLineEnd() { continue }
            guard ";#/".utf8.contains(text[index]), !lineEndsWithRecord else { return true }
            while index < text.count, text[index] != 0x0A { index += 1 }
            if index < text.count { index += 1 }
        }
    }

    /// Returns the next character.
    mutating func character() throws(HexError) -> UInt8 {
        guard index < text.count else { throw tooShort }
        defer { index += 1 }
        return text[index]
    }

    /// Decodes the rest of the line into `bytes`. The first byte is the length byte.
    ///
    /// - Parameter overhead: the number of bytes in the line that the length byte does not count.
    mutating func decode(overhead: Int) throws(HexError) {
        bytes.removeAll(keepingCapacity: true)
        var count = overhead
        while bytes.count < count {
            guard index + 1 < text.count else { throw tooShort }
            let high = Self.values[Int(text[index])]
            let low = Self.values[Int(text[index + 1])]
            guard high | low < 16 else { throw error(.badRecord, "expected \(count) pairs of hex digits") }
            let byte = high << 4 | low
            if bytes.isEmpty { count += Int(byte) }
            bytes.append(byte)
            index += 2
        }
        skipSpaces()
        guard index == text.count || skipLineEnd() else {
            throw error(.badRecord, "the line is longer than its length byte states")
        }
    }

    /// Checks that only blank lines and comments follow the end record.
    mutating func expectEnd() throws(HexError) {
        let last = number
        guard !skipToRecord() else { throw error(.recordAfterEnd, "there is text after the end record") }
        number = last
    }

    func error(_ code: HexError.Code, _ message: String) -> HexError {
        HexError(code, line: number, message, in: format)
    }

    private var tooShort: HexError { error(.badRecord, "the line ends too early") }

    /// Whether the hex digits at the end of the line are a record with a correct length and checksum.
    private var lineEndsWithRecord: Bool {
        let line = unread.prefix { $0 != 0x0A }
        let end = line.reversed().drop { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
        let digits = end.prefix { Self.values[Int($0)] < 16 }.reversed().map { Self.values[Int($0)] }
        // The number of digits is even in Intel HEX and, with the digit of the type, odd in an S-record.
        let isSRecord = digits.count & 1 == 1
        let start = isSRecord ? 1 : 0
        let record = stride(from: start, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
        guard let length = record.first, record.count == Int(length) + (isSRecord ? 1 : 5) else { return false }
        return record.reduce(0, &+) == (isSRecord ? 0xFF : 0)
    }

    /// Skips spaces and tabs, and the end-of-file character of DOS (0x1A) at the end of the text.
    private mutating func skipSpaces() {
        while index < text.count, text[index] == 0x20 || text[index] == 0x09 { index += 1 }
        if index + 1 == text.count, text[index] == 0x1A { index += 1 }
    }

    /// Skips a line end, which is LF or CR LF. Returns false if the next bytes are not a line end.
    private mutating func skipLineEnd() -> Bool {
        let length = text[index] == 0x0D ? 2 : 1
        guard index + length <= text.count, text[index + length - 1] == 0x0A else { return false }
        index += length
        return true
    }

    /// The value of each ASCII hex digit, and 255 for every other byte.
    private static let values = (UInt8.min...UInt8.max).map { Hex.value(ofDigit: $0) ?? 255 }
}

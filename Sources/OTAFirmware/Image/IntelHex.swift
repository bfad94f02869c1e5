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
private func addressText(_ address: UInt64) -> String {
    let digits = String(address, radix: 16)
    return "0x" + String(repeating: "0", count: max(0, 8 - digits.count)) + digits
}

/// Where the data of Intel HEX text lie: below and above their widest gap. Asked only when they span too much, which
/// mostly means that the text has more in it than the application: settings in a memory of their own (UICR of an nRF at
/// 0x10001000), or fuses.
private struct IntelHexRegions {
    private var below: Range<UInt64> = 0..<0
    private var above: Range<UInt64> = 0..<0

    init(_ text: UnsafeRawBufferPointer) throws(IntelHexError) {
        var runs: [Range<UInt64>] = []
        var records = IntelHexRecords(text)
        while let record = try records.next() {
            let end = record.address + UInt64(records.data.count)
            if let last = runs.last, last.upperBound == record.address {
                runs[runs.count - 1] = last.lowerBound..<end
            } else if end > record.address {
                runs.append(record.address..<end)
            }
        }
        runs.sort { $0.lowerBound < $1.lowerBound }
        guard let first = runs.first, let last = runs.last else { return }
        var widest: UInt64 = 0
        var end = first.upperBound
        for run in runs {
            if run.lowerBound > end, run.lowerBound - end > widest {
                widest = run.lowerBound - end
                below = first.lowerBound..<end
                above = run.lowerBound..<last.upperBound
            }
            end = max(end, run.upperBound)
        }
    }

    func tooFarApart(line: Int) -> IntelHexError {
        guard !below.isEmpty else {
            return IntelHexError(.spanTooLarge, line: line, "more data than an image can have")
        }
        let kept = below.count >= above.count ? below : above
        let crop = "\(addressText(kept.lowerBound)) \(addressText(kept.upperBound))"
        return IntelHexError(
            .spanTooLarge, line: line,
            """
            the data from \(addressText(below.lowerBound)) to \(addressText(below.upperBound)) and those from \
            \(addressText(above.lowerBound)) to \(addressText(above.upperBound)) lie too far apart for one image
            """, hint: "cut out the application: srec_cat app.hex -intel -crop \(crop) -o image.hex -intel")
    }
}

/// Why text is not Intel HEX of an image. Two errors are equal when their codes are.
public struct IntelHexError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        /// A line that is not a colon and pairs of hex digits, as many as its length byte says.
        case badRecord = "bad-hex-record"
        case badChecksum = "bad-hex-checksum"
        /// A record type other than 0 to 5.
        case unknownRecordType = "unknown-hex-record-type"
        /// Data beyond the end of a segment or of the address space.
        case badAddress = "bad-hex-address"
        /// Something follows the end record.
        case recordAfterEnd = "hex-record-after-end"
        case missingEnd = "missing-hex-end"
        /// Two records for one address.
        case overlappingData = "overlapping-hex-data"
        case noData = "no-hex-data"
        /// From the first to the last byte is more than an image can have.
        case spanTooLarge = "hex-span-too-large"
    }

    public let code: Code
    /// Counted from 1.
    public let line: Int
    /// What is wrong, for people; safe to show on a terminal.
    public let message: String
    /// What to do about it, for people, where there is something.
    public let hint: String?

    init(_ code: Code, line: Int, _ message: String, hint: String? = nil) {
        self.code = code
        self.line = line
        self.message = message
        self.hint = hint
    }

    public static func == (left: IntelHexError, right: IntelHexError) -> Bool { left.code == right.code }

    public var description: String { "line \(line): \(message)" }
}

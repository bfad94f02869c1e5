/// An image from Intel HEX text.
///
/// The image has all bytes from the lowest to the highest address. Gaps (addresses without data in the text) contain 0xFF, the value of
/// erased flash.
public struct IntelHex: Sendable, Hashable {
    /// The default limit for the length of an image including its gaps, in bytes: 64 MiB.
    public static let maximumSpan = 64 << 20

    /// The address of the first byte.
    public let startAddress: UInt32
    public let bytes: [UInt8]

    /// Parses Intel HEX text. The image including its gaps must not have more than `maximumSpan` bytes.
    public init(parsing text: [UInt8], maximumSpan: Int = Self.maximumSpan) throws(IntelHexError) {
        self = try text.withUnsafeBufferPointer { text throws(IntelHexError) in
            try IntelHex(parsing: UnsafeRawBufferPointer(text), maximumSpan: maximumSpan)
        }
    }

    /// Parses the text twice: first to find the address range of the image, then to store the bytes.
    private init(parsing text: UnsafeRawBufferPointer, maximumSpan: Int) throws(IntelHexError) {
        let extent = try Self.extent(of: text, maximumSpan: maximumSpan)
        var image = [UInt8](repeating: 0xFF, count: extent.count)
        // One bit for each byte of the image. A bit is set after a record has provided the byte.
        var written = [UInt8](repeating: 0, count: (extent.count + 7) / 8)
        var records = IntelHexRecords(text)
        while let record = try records.next() {
            // The extent does not include the address of a record without data. If this address is below the extent, the next subtraction
            // would trap.
            if records.data.isEmpty { continue }
            var position = Int(record.address - extent.lowerBound)
            for byte in records.data {
                let bit: UInt8 = 1 << (position & 7)
                guard written[position >> 3] & bit == 0 else {
                    throw IntelHexError(
                        .overlappingData, line: record.line,
                        "address \(addressText(extent.lowerBound + UInt64(position))) appears in two data records")
                }
                written[position >> 3] |= bit
                image[position] = byte
                position += 1
            }
        }
        startAddress = UInt32(truncatingIfNeeded: extent.lowerBound)
        bytes = image
    }

    /// Returns the range from the lowest address of the data to the address after the last byte.
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
        guard lowest < end else { throw IntelHexError(.noData, line: records.line, "there are no data bytes") }
        return lowest..<end
    }
}

/// Formats an address as `0x` with at least eight hex digits.
private func addressText(_ address: UInt64) -> String {
    let digits = String(address, radix: 16)
    return "0x" + String(repeating: "0", count: max(0, 8 - digits.count)) + digits
}

/// The address ranges of the data below and above the widest gap in Intel HEX text.
///
/// The parser needs these ranges only for the error `spanTooLarge`. The usual reason for this error is that the text contains fuses or
/// settings in addition to the application. For example, an nRF has settings in the UICR memory at 0x10001000.
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

    /// Returns an error that reports both ranges. Its hint is a command that extracts the longer range. If the data has no gap, the error
    /// only reports that the data is too long.
    func tooFarApart(line: Int) -> IntelHexError {
        guard !below.isEmpty else {
            return IntelHexError(.spanTooLarge, line: line, "the data are longer than an image may be")
        }
        let kept = below.count >= above.count ? below : above
        let crop = "\(addressText(kept.lowerBound)) \(addressText(kept.upperBound))"
        return IntelHexError(
            .spanTooLarge, line: line,
            """
            the data from \(addressText(below.lowerBound)) to \(addressText(below.upperBound)) and the data from \
            \(addressText(above.lowerBound)) to \(addressText(above.upperBound)) are too far apart for one image
            """, hint: "extract the application: srec_cat app.hex -intel -crop \(crop) -o image.hex -intel")
    }
}

/// An error in Intel HEX text. Two errors are equal if their codes are equal.
public struct IntelHexError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        /// A line does not consist of a colon and pairs of hex digits. Or the number of pairs does not agree with the length byte in the
        /// line, or with the record type.
        case badRecord = "bad-hex-record"
        case badChecksum = "bad-hex-checksum"
        /// A record's type is not 0 to 5.
        case unknownRecordType = "unknown-hex-record-type"
        /// The data of a record continues past the end of a segment (64 KiB) or of the 32-bit address space.
        case badAddress = "bad-hex-address"
        /// After the end record, the text has bytes that are not line ends.
        case recordAfterEnd = "hex-record-after-end"
        case missingEnd = "missing-hex-end"
        /// Two records have data for the same address.
        case overlappingData = "overlapping-hex-data"
        case noData = "no-hex-data"
        /// The data, including the gaps, is longer than the limit for an image.
        case spanTooLarge = "hex-span-too-large"
    }

    public let code: Code
    /// The number of the line, starting at 1.
    public let line: Int
    /// A description of the error, for the user. It is safe to show on a terminal.
    public let message: String
    /// The recommended next step for the user. The value is nil if there is no recommendation.
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

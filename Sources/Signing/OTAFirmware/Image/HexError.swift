/// An error in hex text. Two errors are equal if their codes are equal.
public struct HexError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        /// A line is not a record of the format. Or the number of pairs of hex digits does not agree with the length byte in the line, or
        /// with the record type.
        case badRecord = "bad-hex-record"
        case badChecksum = "bad-hex-checksum"
        /// The type of a record is unknown: not 0 to 5 in Intel HEX; 4 or not a digit in an S-record.
        case unknownRecordType = "unknown-hex-record-type"
        /// The data of a record continues past the end of a segment (64 KiB) or of the address space.
        case badAddress = "bad-hex-address"
        /// After the end record, the text has a line that is not blank or a comment.
        case recordAfterEnd = "hex-record-after-end"
        case missingEnd = "missing-hex-end"
        /// The number of data records differs from the number in an S5 or S6 record.
        case wrongRecordCount = "wrong-hex-record-count"
        /// Two records have data for the same address.
        case overlappingData = "overlapping-hex-data"
        case noData = "no-hex-data"
        /// The data, including the gaps, is longer than the limit for an image. Or the gaps are longer than the limit for gaps.
        case spanTooLarge = "hex-span-too-large"
    }

    public let code: Code
    /// The format of the text.
    public let format: HexFormat
    /// The number of the line, starting at 1.
    public let line: Int
    /// A description of the error, for the user. It is safe to show on a terminal.
    public let message: String
    /// The recommended next step for the user. The value is nil if there is no recommendation.
    public let hint: String?

    init(_ code: Code, line: Int, _ message: String, in format: HexFormat, hint: String? = nil) {
        self.code = code
        self.format = format
        self.line = line
        self.message = message
        self.hint = hint
    }

    public static func == (left: HexError, right: HexError) -> Bool { left.code == right.code }

    public var description: String { "line \(line): \(message)" }
}

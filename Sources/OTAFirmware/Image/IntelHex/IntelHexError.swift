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

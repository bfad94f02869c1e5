/// Why an archive cannot be read. Two errors are equal when their codes are.
public struct ZipError: Error, Sendable, Equatable {
    public enum Code: String, Sendable, CaseIterable {
        /// The bytes end before what its records announce, or it has no end record.
        case truncated = "truncated-archive"
        /// Its records contradict each other, or overlap.
        case malformed = "malformed-archive"
        /// Encrypted, in several parts, larger than 4 GiB, or packed in another way than stored or deflated.
        case unsupported = "unsupported-archive"
        /// More entries or bytes than are unpacked.
        case tooLarge = "archive-too-large"
        /// An entry is not what its CRC-32 says, or cannot be unpacked.
        case damaged = "damaged-archive"
    }

    public let code: Code
    /// For people: what was seen, without a full stop.
    public let context: String

    public init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    public static func == (left: ZipError, right: ZipError) -> Bool { left.code == right.code }
}

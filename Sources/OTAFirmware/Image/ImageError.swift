/// Why a file is not a firmware image that can be sent. Two errors are equal when their codes are.
public struct ImageError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        case emptyImage = "empty-image"
        /// More than 2^32 − 1 bytes.
        case imageTooLarge = "image-too-large"
        /// A file of another kind, such as ELF, of which an image has to be made first.
        case notAnImage = "not-an-image"
        /// Another format than the one it was said to have.
        case wrongImageFormat = "wrong-image-format"
        /// The bytes end before what their own length fields announce.
        case truncatedImage = "truncated-image"
        /// A field of an image's header, segment or TLV cannot be what it is.
        case badImageHeader = "bad-image-header"
        /// The checksum or digest that the image carries is not that of its bytes.
        case badImageDigest = "bad-image-digest"
        /// Something that does not belong there follows the image.
        case trailingImageBytes = "trailing-image-bytes"
    }

    public let code: Code
    /// Bytes from the start of the image.
    public let offset: UInt64
    /// What the format wants there, for people.
    public let expected: String
    /// What is there instead, for people; safe to show on a terminal.
    public let found: String
    /// What to do about it, for people, where there is something.
    public let hint: String?

    init(_ code: Code, offset: UInt64, expected: String, found: String, hint: String? = nil) {
        self.code = code
        self.offset = offset
        self.expected = expected
        self.found = found
        self.hint = hint
    }

    /// Bytes read from `start` on are too few.
    init(_ error: ByteReader.Truncated, from start: UInt64 = 0) {
        self.init(
            .truncatedImage, offset: start + UInt64(error.offset), expected: "\(error.expected) bytes",
            found: "\(error.found)")
    }

    public static func == (left: ImageError, right: ImageError) -> Bool { left.code == right.code }

    public var description: String { "at offset \(offset): expected \(expected), found \(found)" }
}

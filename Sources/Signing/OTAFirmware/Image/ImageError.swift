/// An error in the bytes of a firmware image. Two errors are equal if their codes are equal.
public struct ImageError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        case emptyImage = "empty-image"
        /// The image has more than 2^32 − 1 bytes.
        case imageTooLarge = "image-too-large"
        /// The file is not an image. For example, an ELF file must first be converted to an image.
        case notAnImage = "not-an-image"
        /// The image does not have the requested format.
        case wrongImageFormat = "wrong-image-format"
        /// The image has fewer bytes than its length fields state.
        case truncatedImage = "truncated-image"
        /// A field in a header, segment or TLV has an invalid value.
        case badImageHeader = "bad-image-header"
        /// The checksum or digest in the image does not match the bytes of the image.
        case badImageDigest = "bad-image-digest"
        /// After the end of the image, the file has bytes that the image format does not allow there.
        case trailingImageBytes = "trailing-image-bytes"
    }

    public let code: Code
    /// The position of the wrong value, in bytes from the start of the image.
    public let offset: UInt64
    /// A description of the expected value, for the user.
    public let expected: String
    /// A description of the found value, for the user. It is safe to show on a terminal.
    public let found: String
    /// The recommended next step for the user. The value is nil if there is no recommendation.
    public let hint: String?

    init(_ code: Code, offset: UInt64, expected: String, found: String, hint: String? = nil) {
        self.code = code
        self.offset = offset
        self.expected = expected
        self.found = found
        self.hint = hint
    }

    /// Creates `truncated-image` from the error of a `ByteReader`.
    ///
    /// - Parameter start: the position in the image at which the reader has the offset 0.
    init(_ error: ByteReader.Truncated, from start: UInt64 = 0) {
        self.init(
            .truncatedImage, offset: start + UInt64(error.offset), expected: "\(error.expected) bytes",
            found: "\(error.found)")
    }

    public static func == (left: ImageError, right: ImageError) -> Bool { left.code == right.code }

    public var description: String { "at offset \(offset): expected \(expected), found \(found)" }
}

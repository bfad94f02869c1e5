/// Why bytes are not a bundle, a manifest or an envelope (docs/bundle-format.md), or why one cannot be made. Two errors
/// are equal when their codes are.
public struct BundleError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        /// The bytes end before what their own length fields announce.
        case truncated
        /// Something follows the end.
        case trailingBytes = "trailing-bytes"
        case badMagic = "bad-magic"
        /// A format version that is not listed.
        case unsupportedVersion = "unsupported-version"
        case unsupportedImageFormat = "unsupported-image-format"
        /// The manifest's length, M, is impossible.
        case badManifestLength = "bad-manifest-length"
        case badImageSize = "bad-image-size"
        /// A byte that has to be zero is not.
        case notZero = "not-zero"
        case badCreationTime = "bad-creation-time"
        /// A field reaches behind the end of the manifest.
        case fieldOverrun = "field-overrun"
        /// Field types do not strictly ascend, or one occurs twice.
        case fieldOrder = "field-order"
        case badVersion = "bad-version"
        case badMinimumBattery = "bad-minimum-battery"
        case badSource = "bad-source"
        case badProduct = "bad-product"
        case badHardware = "bad-hardware"
        case badRequiredVersion = "bad-required-version"
        case missingVersion = "missing-version"
        case missingProduct = "missing-product"
        case badSignatureCount = "bad-signature-count"
        case unsupportedAlgorithm = "unsupported-algorithm"
        /// Key ids do not strictly ascend, or one occurs twice.
        case signatureOrder = "signature-order"
    }

    public let code: Code
    /// Bytes from the start of what was read; where a bundle is made, from the start of what it would be.
    public let offset: Int
    /// What the format wants there, for people.
    public let expected: String
    /// What is there instead, for people; safe to show on a terminal.
    public let found: String

    init(_ code: Code, offset: Int, expected: String, found: String) {
        self.code = code
        self.offset = offset
        self.expected = expected
        self.found = found
    }

    public static func == (left: BundleError, right: BundleError) -> Bool { left.code == right.code }

    public var description: String { "at offset \(offset): expected \(expected), found \(found)" }
}

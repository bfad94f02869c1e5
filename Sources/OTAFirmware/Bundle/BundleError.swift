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

// Reading where the bytes are a bundle's, so that what is missing or wrong is a `BundleError`.

extension ByteReader {
    /// The next integer, little-endian.
    mutating func next<Integer: FixedWidthInteger & UnsignedInteger>(
        _ type: Integer.Type = Integer.self, orElse code: BundleError.Code = .truncated
    ) throws(BundleError) -> Integer {
        do { return try read(type) } catch { throw BundleError(code, error) }
    }

    /// The next `count` bytes.
    mutating func next(_ count: Int, orElse code: BundleError.Code = .truncated) throws(BundleError) -> ArraySlice<
        UInt8
    > {
        do { return try read(count) } catch { throw BundleError(code, error) }
    }

    /// Passes over bytes that can only be these.
    mutating func expect(_ bytes: [UInt8], _ code: BundleError.Code, _ expected: String) throws(BundleError) {
        let start = offset
        let found = try next(bytes.count)
        guard found.elementsEqual(bytes) else {
            throw BundleError(code, offset: start, expected: expected, found: Hex.encode(found))
        }
    }

    func expectEnd(of whole: String) throws(BundleError) {
        guard remaining == 0 else {
            throw BundleError(
                .trailingBytes, offset: offset, expected: "the end of the \(whole)", found: "\(remaining) more bytes")
        }
    }
}

extension BundleError {
    fileprivate init(_ code: Code, _ error: ByteReader.Truncated) {
        self.init(code, offset: error.offset, expected: "\(error.expected) bytes", found: "\(error.found)")
    }
}

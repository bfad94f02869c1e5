/// An error in a bundle, an envelope or a manifest (docs/bundle-format.md). An initializer of these types throws this error if the given
/// bytes or values are wrong.
///
/// Two errors are equal if their codes are equal.
public struct BundleError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: String, Sendable, CaseIterable {
        /// The input has fewer bytes than its length fields state.
        case truncated
        /// The input has bytes after the end of the bundle, envelope or manifest.
        case trailingBytes = "trailing-bytes"
        case badMagic = "bad-magic"
        /// The format version is not supported.
        case unsupportedVersion = "unsupported-version"
        case unsupportedImageFormat = "unsupported-image-format"
        /// The manifest's length is not 64 to 1024 bytes.
        case badManifestLength = "bad-manifest-length"
        case badImageSize = "bad-image-size"
        /// A byte that must be zero is not zero.
        case notZero = "not-zero"
        case badCreationTime = "bad-creation-time"
        /// A field extends past the end of the manifest.
        case fieldOverrun = "field-overrun"
        /// The fields are not in strictly ascending order of type.
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
        /// The file is a manifest, as `sign --to-sign` writes it. A bundle also has signatures and an image.
        case unsignedManifest = "unsigned-manifest"
        /// The length of a signature is not the length of its algorithm's signatures.
        case badSignatureLength = "bad-signature-length"
        /// The signatures are not in strictly ascending order of key id.
        case signatureOrder = "signature-order"
    }

    public let code: Code
    /// The position of the wrong value, in bytes from the start of the bundle, envelope or manifest that is parsed or created.
    public let offset: Int
    /// A description of the expected value, for the user.
    public let expected: String
    /// A description of the found value, for the user. It is safe to show on a terminal.
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

// The functions of the next extension throw `BundleError` in place of `ByteReader.Truncated`.

extension ByteReader {
    /// Reads the next little-endian integer.
    ///
    /// - Throws: an error with `code` if the reader does not have enough bytes.
    mutating func next<Integer: FixedWidthInteger & UnsignedInteger>(
        _ type: Integer.Type = Integer.self, orElse code: BundleError.Code = .truncated
    ) throws(BundleError) -> Integer {
        do { return try read(type) } catch { throw BundleError(code, error) }
    }

    /// Reads the next `count` bytes.
    ///
    /// - Throws: an error with `code` if the reader does not have enough bytes.
    mutating func next(_ count: Int, orElse code: BundleError.Code = .truncated) throws(BundleError) -> ArraySlice<
        UInt8
    > {
        do { return try read(count) } catch { throw BundleError(code, error) }
    }

    /// Reads bytes and checks that they are equal to `bytes`.
    ///
    /// - Parameter expected: a description of `bytes`, for the user.
    /// - Throws: an error with `code` if the bytes are different; `truncated` if the reader does not have enough bytes.
    mutating func expect(_ bytes: [UInt8], _ code: BundleError.Code, _ expected: String) throws(BundleError) {
        let start = offset
        let found = try next(bytes.count)
        guard found.elementsEqual(bytes) else {
            throw BundleError(code, offset: start, expected: expected, found: Hex.encode(found))
        }
    }

    /// Checks that the reader is at the end of its bytes.
    ///
    /// - Parameter whole: the name of the parsed object, for the error: `envelope` or `manifest`.
    /// - Throws: `trailing-bytes`.
    func expectEnd(of whole: String) throws(BundleError) {
        guard remaining == 0 else {
            throw BundleError(
                .trailingBytes, offset: offset, expected: "the end of the \(whole)",
                found: "\(remaining) bytes after it")
        }
    }
}

extension BundleError {
    fileprivate init(_ code: Code, _ error: ByteReader.Truncated) {
        self.init(code, offset: error.offset, expected: "\(error.expected) bytes", found: "\(error.found)")
    }
}

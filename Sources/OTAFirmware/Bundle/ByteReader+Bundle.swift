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
    init(_ code: Code, _ error: ByteReader.Truncated) {
        self.init(code, offset: error.offset, expected: "\(error.expected) bytes", found: "\(error.found)")
    }
}

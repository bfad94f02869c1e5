/// A parser of an image that consists of consecutive sections.
///
/// The parser knows the length of a section when the section begins. The caller can pass the image in blocks of any size.
protocol SectionParser {
    var cursor: SectionCursor { get set }

    /// Parses the next bytes of the current section. The first of these bytes is at `cursor.offset`.
    mutating func take(_ bytes: UnsafeRawBufferPointer) throws(ImageError)

    /// Evaluates the current section, and begins the next section. `update(_:)` calls this function after the last byte of a section.
    mutating func endSection() throws(ImageError)

    /// Checks that the image is complete, and returns its description. Call this function after the last byte of the file: `cursor.offset`
    /// is then the length of the file.
    mutating func finish() throws(ImageError) -> FirmwareDescription
}

/// The position of a parser in its current section. The section begins at `start` and has `length` bytes.
struct SectionCursor {
    private(set) var start: UInt64 = 0
    private(set) var length: UInt64
    /// The offset of the next byte in the image.
    fileprivate(set) var offset: UInt64 = 0

    init(length: UInt64) {
        self.length = length
    }

    var remaining: UInt64 { length - (offset - start) }

    /// Begins the next section at `offset`. `length` is `.max` for a section that continues to the end of the file.
    mutating func beginSection(length: UInt64) {
        start = offset
        self.length = length
    }

    /// The error for an image that ends inside the current section.
    var truncation: ImageError {
        ImageError(.truncatedImage, offset: start, expected: "\(length) bytes", found: "\(offset - start)")
    }
}

extension SectionParser {
    /// Splits a block of the image at the section ends, and parses each part.
    mutating func update(_ bytes: UnsafeRawBufferPointer) throws(ImageError) {
        var index = 0
        while index < bytes.count {
            let count = Int(min(UInt64(bytes.count - index), cursor.remaining))
            try take(bytes.part(index, count))
            index += count
            cursor.offset += UInt64(count)
            while cursor.remaining == 0 { try endSection() }
        }
    }
}

/// A parser for an image without a known format.
struct RawParser: SectionParser {
    var cursor = SectionCursor(length: .max)
    /// Nil: the parser accepts all bytes.
    private var content: RawContent?

    private let details: FirmwareDescription.Details

    init(_ details: FirmwareDescription.Details = .raw, checksContent: Bool) {
        self.details = details
        content = checksContent ? RawContent() : nil
    }

    mutating func take(_ bytes: UnsafeRawBufferPointer) { content?.update(bytes) }

    mutating func endSection() {}

    mutating func finish() throws(ImageError) -> FirmwareDescription {
        if let foreign = content?.foreign, let refusal = FirmwareFileKind.foreign(foreign).refusal { throw refusal }
        return FirmwareDescription(size: cursor.offset, details: details, notes: [])
    }
}

extension UnsafeRawBufferPointer {
    /// Returns the `count` bytes from the index `start`. All these bytes must be in this buffer.
    func part(_ start: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[start..<(start + count)])
    }

    /// Returns the exclusive or (XOR) of all bytes.
    func exclusiveOr() -> UInt8 {
        var wide: UInt64 = 0
        var index = 0
        while count - index >= 8 {
            wide ^= loadUnaligned(fromByteOffset: index, as: UInt64.self)
            index += 8
        }
        var result = (0..<8).reduce(UInt8(0)) { $0 ^ UInt8(truncatingIfNeeded: wide >> ($1 * 8)) }
        while index < count {
            result ^= self[index]
            index += 1
        }
        return result
    }

    /// Returns the number of bytes before the first byte that is not `value`.
    func countOfLeading(_ value: UInt8) -> Int {
        let wide = UInt64(value) &* 0x0101_0101_0101_0101
        var index = 0
        while count - index >= 8, loadUnaligned(fromByteOffset: index, as: UInt64.self) == wide { index += 8 }
        while index < count, self[index] == value { index += 1 }
        return index
    }
}

/// A parser of an image that is a row of sections, each of a length known when it begins. The image is pushed through
/// it in chunks of any size.
protocol SectionParser {
    var cursor: SectionCursor { get set }

    /// The next bytes of the section, at `cursor.offset`.
    mutating func take(_ bytes: UnsafeRawBufferPointer) throws(ImageError)

    /// The section is complete. Begins the next one.
    mutating func endSection() throws(ImageError)

    /// The image ends at `cursor.offset`.
    mutating func finish() throws(ImageError) -> FirmwareDescription
}

/// Where a parser is: in the section that begins at `start` and is `length` bytes long.
struct SectionCursor {
    private(set) var start: UInt64 = 0
    private(set) var length: UInt64
    /// The offset of the next byte in the image.
    fileprivate(set) var offset: UInt64 = 0

    init(length: UInt64) {
        self.length = length
    }

    var remaining: UInt64 { length - (offset - start) }

    /// The next section begins here. One that has no end is `.max` long.
    mutating func beginSection(length: UInt64) {
        start = offset
        self.length = length
    }

    /// Why an image cannot end within this section.
    var truncation: ImageError {
        ImageError(.truncatedImage, offset: start, expected: "\(length) bytes", found: "\(offset - start)")
    }
}

extension SectionParser {
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

/// Bytes of which nothing is known.
struct RawParser: SectionParser {
    var cursor = SectionCursor(length: .max)

    mutating func take(_ bytes: UnsafeRawBufferPointer) {}

    mutating func endSection() {}

    mutating func finish() -> FirmwareDescription {
        FirmwareDescription(size: cursor.offset, details: .raw, notes: [])
    }
}

extension UnsafeRawBufferPointer {
    /// The part from `start` on, `count` bytes, both within bounds.
    func part(_ start: Int, _ count: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[start..<(start + count)])
    }

    /// The exclusive or of all bytes.
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

    /// How many bytes at the start are `value`.
    func countOfLeading(_ value: UInt8) -> Int {
        let wide = UInt64(value) &* 0x0101_0101_0101_0101
        var index = 0
        while count - index >= 8, loadUnaligned(fromByteOffset: index, as: UInt64.self) == wide { index += 8 }
        while index < count, self[index] == value { index += 1 }
        return index
    }
}

/// What may follow an MCUboot image: the rest of its slot as imgtool's `--pad` writes it, that is erased bytes up to the
/// bootloader's trailer, whose last 16 bytes are a magic; before it, with `--confirm`, the flag that the image is
/// confirmed. The slot's padding alone is taken too.
struct MCUbootTrailer {
    /// The magic for a flash written in units of up to 8 bytes.
    private static let magic: [UInt8] = [
        0x77, 0xC2, 0x95, 0xF3, 0x60, 0xD2, 0xEF, 0x7F, 0x35, 0x52, 0x50, 0x0F, 0x2C, 0xB6, 0x79, 0x80,
    ]
    /// What follows the unit, two bytes, in the magic for larger ones.
    private static let magicOfLargerUnit: [UInt8] = [
        0x2D, 0xE1, 0x5D, 0x29, 0x41, 0x0B, 0x8D, 0x77, 0x67, 0x9C, 0x11, 0x0F, 0x1F, 0x8A,
    ]
    /// From the flag to the end, for the largest unit that imgtool writes, 32 bytes.
    private static let maximumLength = 64

    /// Where the image itself ends.
    let start: UInt64
    /// What erased flash reads as: 0xFF, on some chips 0.
    private var erased: UInt8?
    /// From the first byte that is not erased.
    private var trailer: [UInt8] = []
    private var trailerStart: UInt64 = 0

    init(start: UInt64) {
        self.start = start
    }

    mutating func take(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(ImageError) {
        var rest = bytes
        if trailer.isEmpty {
            let erased = self.erased ?? (bytes.first == 0 ? 0 : 0xFF)
            self.erased = erased
            let count = bytes.countOfLeading(erased)
            trailerStart = offset + UInt64(count)
            rest = bytes.part(count, bytes.count - count)
        }
        trailer.append(contentsOf: rest.prefix(Self.maximumLength + 1 - trailer.count))
        guard trailer.count <= Self.maximumLength else { throw unexpected }
    }

    /// What is to be said of it.
    func finish(at end: UInt64) throws(ImageError) -> [String] {
        guard end > start else { return [] }
        if trailer.isEmpty { return ["\(end - start) bytes of slot padding follow the image"] }
        let flag = trailer.dropLast(Self.magic.count)
        guard isMagic(trailer.suffix(Self.magic.count)),
            flag.isEmpty || flag.first == 1 && flag.dropFirst().allSatisfy({ $0 == erased })
        else { throw unexpected }
        let state = flag.isEmpty ? "" : ", which marks the image as confirmed"
        return ["\(end - start) bytes of slot padding and the bootloader's trailer follow the image" + state]
    }

    private func isMagic(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.elementsEqual(Self.magic) || bytes.count == 16 && bytes.dropFirst(2).elementsEqual(Self.magicOfLargerUnit)
    }

    /// The last 16 bytes of a slot, for a flash that is written in units of this many bytes, 8 at least.
    static func magic(unit: Int) -> [UInt8] {
        unit == 8 ? magic : [UInt8(unit & 0xFF), UInt8(unit >> 8)] + magicOfLargerUnit
    }

    private var unexpected: ImageError {
        ImageError(
            .trailingImageBytes, offset: trailerStart,
            expected: "the end of the image, slot padding, or the trailer of imgtool's --pad",
            found: Hex.encode(trailer.prefix(1)))
    }
}

/// What may follow an ESP-IDF image: padding (0xFF) and then signature sectors of Secure Boot v2, 4096 bytes each, which
/// begin with 0xE7 at an offset divisible by 4096. They are passed over, not checked.
struct EspressifTrailer {
    private static let sectorLength: UInt64 = 4096
    private static let sectorMagic: UInt8 = 0xE7

    /// Where the image itself ends.
    let start: UInt64
    /// Where the first sector begins, and the last one ends.
    private var firstSector: UInt64?
    private var sectorEnd: UInt64 = 0

    init(start: UInt64) {
        self.start = start
    }

    mutating func take(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(ImageError) {
        var index = 0
        while index < bytes.count {
            let position = offset + UInt64(index)
            if position < sectorEnd {
                index += Int(min(UInt64(bytes.count - index), sectorEnd - position))
            } else if bytes[index] == Self.sectorMagic, position % Self.sectorLength == 0 {
                firstSector = firstSector ?? position
                sectorEnd = position + Self.sectorLength
            } else if bytes[index] == 0xFF, firstSector == nil {
                index += bytes.part(index, bytes.count - index).countOfLeading(0xFF)
            } else {
                throw ImageError(
                    .trailingImageBytes, offset: position,
                    expected: "the end of the image, padding (ff), or a signature sector (e7) at a multiple of 4096",
                    found: Hex.encode([bytes[index]]),
                    hint: "give the application image alone, not one merged with bootloader and partition table")
            }
        }
    }

    /// What is to be said of it.
    func finish(at end: UInt64) throws(ImageError) -> [String] {
        guard let firstSector else { return end > start ? ["\(end - start) bytes of padding follow the image"] : [] }
        guard end >= sectorEnd else {
            throw ImageError(
                .truncatedImage, offset: sectorEnd - Self.sectorLength, expected: "a signature sector of 4096 bytes",
                found: "\(end + Self.sectorLength - sectorEnd)")
        }
        return ["the Secure Boot v2 signature at offset \(firstSector) was not checked: the device does that"]
    }
}

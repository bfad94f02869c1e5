/// Examines the bytes of an image without a known format in one pass, and finds content that cannot be firmware.
///
/// Firmware contains data, and it is not text. An image that consists of one repeated byte comes from a failed build or from an erased
/// flash. The content can have padding (0x00 or 0xFF) before and after it.
struct RawContent {
    private static let shortestPaddedText = 16

    private var size: UInt64 = 0
    /// The first byte of the image.
    private var first: UInt8 = 0
    /// The number of padding bytes before `start`.
    private var padding: UInt64 = 0
    /// The first bytes after the padding, at most `FirmwareFileKind.prefixLength`.
    private var start: [UInt8] = []
    private var isConstant = true
    private var text = TextScan()
    /// The last bytes of the image, at most `ForeignFile.dfuSuffixLength`.
    private var end: [UInt8] = []

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        guard let next = bytes.first else { return }
        if size == 0 { first = next }
        size += UInt64(bytes.count)
        end = (end + bytes.suffix(ForeignFile.dfuSuffixLength)).suffix(ForeignFile.dfuSuffixLength)
        if isConstant { isConstant = bytes.countOfLeading(first) == bytes.count }
        var content = bytes
        if start.isEmpty, first == 0 || first == 0xFF {
            let count = bytes.countOfLeading(first)
            padding += UInt64(count)
            content = bytes.part(count, bytes.count - count)
        }
        start.append(contentsOf: content.prefix(FirmwareFileKind.prefixLength - start.count))
        text.update(content)
    }

    /// The type of the content if it is not firmware. Call this property after the last byte of the image.
    var foreign: ForeignFile? {
        if isConstant, size > 1 { return .constant(first, size) }
        if let file = ForeignFile.dfuSuffix(end) { return file }
        if padding > 0, let file = afterPadding { return file }
        // In padding, a few bytes that happen to be characters are not a text.
        let isPadded = padding > 0 || text.padding != nil
        guard text.isText, text.count >= (isPadded ? Self.shortestPaddedText : 2) else { return nil }
        return ForeignFile.text(Array(start.prefix(Int(clamping: text.count))))
    }

    private var afterPadding: ForeignFile? {
        // The magic of a JPEG picture starts with 0xFF, which counts as padding.
        let kinds = [start, [first] + start].map { FirmwareFileKind.detect(prefix: $0) }
        let refusal = kinds.lazy.compactMap(\.refusal).first
        if let refusal {
            return ForeignFile("\(refusal.found) after \(padding) bytes 0x\(Hex.encode([first]))", refusal.hint)
        }
        if start.starts(with: MCUbootImage.magic) {
            return ForeignFile(
                "an MCUboot image after \(padding) bytes 0x\(Hex.encode([first]))",
                "remove the bytes before it: tail -c +\(padding + 1) app.bin > image.bin")
        }
        // esptool merges the bootloader, the partition table and the application. The bootloader of an ESP32 is at the offset 0x1000 or 0x2000.
        if first == 0xFF, start.first == EspressifImage.magic, padding == 0x1000 || padding == 0x2000 {
            return ForeignFile(
                "a merged flash image of esptool, with a bootloader",
                "give the application image, such as build/app.bin")
        }
        return nil
    }
}

/// Finds out whether all bytes are text, with padding after it.
private struct TextScan {
    /// The number of bytes before the padding.
    private(set) var count: UInt64 = 0
    /// The number of bytes that are neither ASCII nor UTF-8.
    private var strays: UInt64 = 0
    /// The number of bytes that are missing in the current UTF-8 sequence.
    private var missing = 0
    private var hasControl = false
    /// The padding after the text; nil before the first padding byte.
    private(set) var padding: UInt8?

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        for byte in bytes {
            if hasControl { return }
            if let padding {
                hasControl = byte != padding
                continue
            }
            switch byte {
            case 0x00, 0xFF:
                padding = byte
                continue
            case 0x80...0xBF where missing > 0: missing -= 1
            case 0xC2...0xF4 where missing == 0: missing = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3
            case 0x09...0x0D, 0x1A, 0x1B, 0x20...0x7E:
                if missing > 0 { strays += 1 }
                missing = 0
            case 0x80...:
                strays += 1
                missing = 0
            default: hasControl = true
            }
            count += 1
        }
    }

    /// Text in a character set other than UTF-8 has a few stray bytes.
    var isText: Bool { !hasControl && count > 0 && strays <= count / 8 }
}

/// Examines the bytes of an image without a known format in one pass, and finds content that cannot be firmware.
///
/// Firmware contains data, and it is not text. An image that consists of one repeated byte comes from a failed build or from an erased
/// flash. The content can have padding (0x00 or 0xFF) before and after it.
struct RawContent {
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
        return text.isText ? ForeignFile.text(start) : nil
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
    private var count: UInt64 = 0
    private var highBytes: UInt64 = 0
    private var hasControl = false
    /// The padding after the text; nil before the first padding byte.
    private var padding: UInt8?

    mutating func update(_ bytes: UnsafeRawBufferPointer) {
        for byte in bytes {
            if hasControl { return }
            if let padding, byte == padding { continue }
            switch byte {
            // A character set other than UTF-8 is also text. A few such bytes are therefore allowed.
            case _ where padding != nil: hasControl = true
            case 0x00, 0xFF: padding = byte
            case 0x80...: highBytes += 1
            case 0x09...0x0D, 0x1A, 0x1B, 0x20...0x7E: break
            default: hasControl = true
            }
            count += 1
        }
    }

    var isText: Bool { !hasControl && count > 0 && highBytes <= count / 8 }
}

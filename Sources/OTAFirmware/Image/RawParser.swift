/// Bytes of which nothing is known.
struct RawParser: SectionParser {
    var cursor = SectionCursor(length: .max)

    mutating func take(_ bytes: UnsafeRawBufferPointer) {}

    mutating func endSection() {}

    mutating func finish() -> FirmwareDescription {
        FirmwareDescription(size: cursor.offset, details: .raw, notes: [])
    }
}

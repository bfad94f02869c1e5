import OTAFirmware
import Testing

/// Parses `image` as one block.
func inspect(_ image: [UInt8], format: ImageFormat? = nil) throws(ImageError) -> FirmwareDescription {
    try FirmwareInspector.inspect(image, format: format) { ReferenceSHA256() }
}

/// Returns the error for an invalid image.
func refusal(_ image: [UInt8], format: ImageFormat? = nil) -> ImageError? {
    #expect(throws: ImageError.self) { try inspect(image, format: format) }
}

/// Parses `image` in blocks of `size` bytes.
func inspect(_ image: [UInt8], inChunksOf size: Int) throws -> FirmwareDescription {
    var inspector = FirmwareInspector { ReferenceSHA256() }
    for start in stride(from: 0, to: image.count, by: size) {
        try image[start..<min(image.count, start + size)].withUnsafeBytes { try inspector.update($0) }
    }
    return try inspector.finish()
}

/// Parses an image in one pass and returns its description.
///
/// The caller passes the image in blocks of any size. The inspector stores headers and other metadata, but not the program. Therefore the
/// caller can inspect a large file without the whole file in memory.
///
/// The magic at the start of the image determines the format: ESP-IDF application image (0xE9) or MCUboot image (0x96f3b83d). An image
/// with any other start is raw. The inspector refuses a damaged ESP-IDF or MCUboot image, and a raw image that is not firmware, such as
/// text (`RawContent`). If the caller requires the format `raw`, the inspector ignores the magic and does not check the image.
///
/// The inspector accepts a zip archive only if the caller requires the format `nordicDFU`. It does not read the archive.
public struct FirmwareInspector {
    private let format: ImageFormat?
    private let makeHash: () -> any IncrementalHash
    private var head: [UInt8] = []
    private var parser: (any SectionParser)?
    private var size: UInt64 = 0

    /// - Parameters:
    ///   - format: the required format. With `raw`, the inspector accepts every file that is not empty. With nil, the inspector detects the
    ///     format and refuses a file that is not an image, such as an ELF file or text.
    ///   - makeHash: returns a new SHA-256 computation. The inspector compares the computed digest with the digest in the image.
    public init(format: ImageFormat? = nil, makeHash: @escaping () -> any IncrementalHash) {
        self.format = format
        self.makeHash = makeHash
    }

    /// Parses the next bytes of the image.
    public mutating func update(_ bytes: UnsafeRawBufferPointer) throws(ImageError) {
        size += UInt64(bytes.count)
        guard size <= UInt32.max else {
            throw ImageError(
                .imageTooLarge, offset: UInt64(UInt32.max), expected: "at most \(UInt32.max) bytes", found: "more")
        }
        guard parser == nil else {
            try parser?.update(bytes)
            return
        }
        let missing = min(FirmwareFileKind.prefixLength - head.count, bytes.count)
        head.append(contentsOf: bytes.part(0, missing))
        if head.count == FirmwareFileKind.prefixLength {
            try chooseParser()
            try parser?.update(bytes.part(missing, bytes.count - missing))
        }
    }

    /// Checks that the image is complete, and returns its description. Call this function once, after the last call of `update`.
    public mutating func finish() throws(ImageError) -> FirmwareDescription {
        guard size > 0 else {
            throw ImageError(.emptyImage, offset: 0, expected: "a firmware image", found: "an empty file")
        }
        if parser == nil { try chooseParser() }
        return try parser?.finish() ?? FirmwareDescription(size: size, details: .raw, notes: [])
    }

    /// Parses a whole image and returns its description. The parameters are those of `init(format:makeHash:)`.
    public static func inspect(
        _ image: [UInt8], format: ImageFormat? = nil, makeHash: @escaping () -> any IncrementalHash
    ) throws(ImageError) -> FirmwareDescription {
        var inspector = FirmwareInspector(format: format, makeHash: makeHash)
        try image.withUnsafeBufferPointer { bytes throws(ImageError) in
            try inspector.update(UnsafeRawBufferPointer(bytes))
        }
        return try inspector.finish()
    }

    private mutating func chooseParser() throws(ImageError) {
        let recognised = ImageFormat.recognise(head)
        if let format {
            guard format == .raw || format == recognised else {
                throw ImageError(
                    .wrongImageFormat, offset: 0, expected: "an image of the format \(format.name)",
                    found: recognised.name)
            }
        } else if let refusal = FirmwareFileKind.detect(prefix: head).refusal {
            throw refusal
        }
        var chosen: any SectionParser =
            switch format ?? recognised {
            case .raw: RawParser(checksContent: format == nil)
            case .nordicDFU: RawParser(.nordicDFU, checksContent: false)
            case .espressif: EspressifParser(makeHash: makeHash)
            case .mcuboot: MCUbootParser(makeHash: makeHash)
            }
        try head.withUnsafeBufferPointer { bytes throws(ImageError) in
            try chosen.update(UnsafeRawBufferPointer(bytes))
        }
        parser = chosen
    }
}

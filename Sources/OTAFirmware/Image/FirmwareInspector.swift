/// Reads an image in one pass, pushed through it in chunks of any size, and keeps no more of it than its headers: a
/// file is inspected while it is copied, and a whole buffer is one chunk.
///
/// The format is recognised by its magic: ESP-IDF application images (0xE9), MCUboot images (0x96f3b83d), else raw
/// bytes. What begins like one of the first two has to be one in all: a damaged image does not pass as raw.
public struct FirmwareInspector {
    private let format: ImageFormat?
    private let makeHash: () -> any IncrementalHash
    private var head: [UInt8] = []
    private var parser: (any SectionParser)?
    private var size: UInt64 = 0

    /// - Parameters:
    ///   - format: the format the image has to have, raw being any; nil: it is recognised, and a file that an image
    ///     has to be made of first is refused.
    ///   - makeHash: a new SHA-256, for the digest that an image carries.
    public init(format: ImageFormat? = nil, makeHash: @escaping () -> any IncrementalHash) {
        self.format = format
        self.makeHash = makeHash
    }

    /// The next bytes of the image.
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

    /// The image ends here. Called once, last.
    public mutating func finish() throws(ImageError) -> FirmwareDescription {
        guard size > 0 else {
            throw ImageError(.emptyImage, offset: 0, expected: "a firmware image", found: "an empty file")
        }
        if parser == nil { try chooseParser() }
        return try parser?.finish() ?? FirmwareDescription(size: size, details: .raw, notes: [])
    }

    /// A whole image at once.
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
        let recognised = Self.recognise(head)
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
            case .raw: RawParser()
            case .espressif: EspressifParser(makeHash: makeHash)
            case .mcuboot: MCUbootParser(makeHash: makeHash)
            }
        try head.withUnsafeBufferPointer { bytes throws(ImageError) in
            try chosen.update(UnsafeRawBufferPointer(bytes))
        }
        parser = chosen
    }

    private static func recognise(_ head: [UInt8]) -> ImageFormat {
        if head.first == EspressifImage.magic { return .espressif }
        if head.starts(with: MCUbootImage.magic) { return .mcuboot }
        return .raw
    }
}

internal import OTAFirmware

/// The source of the image's bytes.
enum ImageSource {
    case file(InputFile, size: UInt32)
    /// The bytes that an Intel HEX text describes.
    case memory([UInt8], size: UInt32, text: InputFile)

    /// The greatest accepted length of Intel HEX text, in bytes. 64 MiB in records of 16 bytes need 176 MiB of text.
    private static let maximumTextLength = 256 << 20

    init(_ file: InputFile) throws(SigningError) {
        self = .file(file, size: try Self.size(file.size))
    }

    init(intelHexIn file: InputFile) throws(SigningError) {
        guard file.size <= Self.maximumTextLength else {
            throw .refused(
                .imageTooLarge,
                context: "Intel HEX text of \(file.size) bytes; more than \(Self.maximumTextLength) "
                    + "are not read", hint: "make a binary of it: objcopy -I ihex -O binary app.hex app.bin")
        }
        let text = try file.prefix(Int(file.size))
        do throws(IntelHexError) {
            let image = try IntelHex(parsing: text).bytes
            self = .memory(image, size: UInt32(clamping: image.count), text: file)
        } catch {
            throw .intelHex(error)
        }
    }

    /// In bytes.
    var size: UInt32 {
        switch self {
        case .file(_, let size), .memory(_, let size, _): size
        }
    }

    /// Reads the image once, passes each part to `body`, and returns the image's description.
    func inspect(
        as format: ImageFormat?, _ body: (UnsafeRawBufferPointer) throws(SigningError) -> Void
    ) throws(SigningError) -> FirmwareDescription {
        var inspector = FirmwareInspector(format: format) { SHA256() }
        try forEachPiece { (piece) throws(SigningError) in
            try imageChecked { () throws(ImageError) in try inspector.update(piece) }
            try body(piece)
        }
        return try imageChecked { () throws(ImageError) in try inspector.finish() }
    }

    /// The error for two readings that differ.
    var changed: SigningError {
        switch self {
        case .file(let file, _), .memory(_, _, let file): file.changed
        }
    }

    private func forEachPiece(
        _ body: (UnsafeRawBufferPointer) throws(SigningError) -> Void
    ) throws(SigningError) {
        switch self {
        case .file(let file, let size): try file.forEachPiece(in: 0..<UInt64(size), body)
        case .memory(let image, _, _):
            try image.withUnsafeBufferPointer { (bytes) throws(SigningError) in
                try body(UnsafeRawBufferPointer(bytes))
            }
        }
    }

    private static func size(_ size: UInt64) throws(SigningError) -> UInt32 {
        guard size > 0 else { throw .refused(.emptyImage, context: "the image is empty") }
        guard let size = UInt32(exactly: size) else {
            throw .refused(.imageTooLarge, context: "an image of \(size) bytes; at most \(UInt32.max) can be sent")
        }
        return size
    }
}

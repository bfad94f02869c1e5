internal import Glibc
internal import OTAFirmware
package import SystemPackage

/// The input of a signer: an open file, or a temporary copy of a stream. The input is read in pieces of at most `pieceLength` bytes.
package final class InputFile {
    /// The length in bytes: the file's size when it was opened, or the length of the copied stream.
    package let size: UInt64
    private let path: FilePath
    private let file: OpenFile
    private let status: Stat

    /// The maximum length of one read, in bytes. This length is a compromise: longer reads need fewer system calls, but shorter reads fit
    /// better into the processor's cache.
    package static let pieceLength = 256 << 10

    /// Opens the regular file at `path`.
    ///
    /// - Throws: `no-such-file`; `not-a-file` for a folder, a device or a pipe; `read-failed`.
    package init(_ path: FilePath) throws(SigningError) {
        self.path = path
        do {
            file = try OpenFile(path, .readOnly, options: .nonBlocking)
            status = try file.status()
        } catch {
            throw .refused(error.isMissing ? .noSuchFile : .readFailed, context: "\(path): \(error)")
        }
        guard status.type == .regular else { throw .refused(.notAFile, context: "\(path): not a regular file") }
        size = UInt64(clamping: status.size)
    }

    /// Copies a stream, such as standard input, to a temporary file. A signer may read the input twice, but a stream can be read only once.
    ///
    /// - Parameters:
    ///   - stream: an open descriptor. This method reads the stream to its end and does not close the descriptor.
    ///   - name: the name of the stream in messages.
    /// - Throws: `read-failed` for the stream; `cannot-create` or `write-failed` for the temporary file; `image-too-large` if the stream is
    ///   longer than 256 MiB.
    package init(copying stream: FileDescriptor, as name: FilePath) throws(SigningError) {
        path = name
        do { file = try OpenFile.scratch() } catch { throw OpenFile.scratchFailed(.cannotCreate, error) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceLength, alignment: 4096)
        defer { buffer.deallocate() }
        var length = 0
        while true {
            let count: Int
            do { count = try stream.readWaiting(into: buffer) } catch {
                throw .refused(.readFailed, context: "\(name): \(error)")
            }
            guard count > 0 else { break }
            length += count
            guard length <= Self.longestStream else {
                throw .refused(
                    .imageTooLarge, context: "\(name) is longer than the limit of \(Self.longestStream >> 20) MiB",
                    hint: "save it to a file first, and give the name of the file")
            }
            do { try file.write(UnsafeRawBufferPointer(rebasing: buffer[..<count])) } catch {
                throw OpenFile.scratchFailed(.writeFailed, error)
            }
        }
        do { status = try file.status() } catch { throw .refused(.readFailed, context: "\(name): \(error)") }
        size = UInt64(length)
    }

    /// The maximum length of a stream, in bytes. Without a limit, an endless stream would fill the disk.
    private static let longestStream = 256 << 20

    /// Returns the first `count` bytes of the file, or all bytes of a shorter file.
    package func prefix(_ count: Int) throws(SigningError) -> [UInt8] {
        let length = min(size, UInt64(count))
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(length))
        try forEachPiece(in: 0..<length) { piece in bytes.append(contentsOf: piece) }
        return bytes
    }

    /// Reads the bytes of `range` in order, in pieces of at most `pieceLength` bytes, and calls `body` with each piece. The range must not
    /// extend past the end of the file.
    ///
    /// - Throws: `read-failed`; `image-changed` if the file's size or modification time has changed since the file was opened; the errors
    ///   of `body`.
    package func forEachPiece(
        in range: Range<UInt64>, _ body: (UnsafeRawBufferPointer) throws(SigningError) -> Void
    ) throws(SigningError) {
        let capacity = Int(min(UInt64(range.count), UInt64(Self.pieceLength)))
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 4096)
        defer { buffer.deallocate() }
        var offset = range.lowerBound
        while offset < range.upperBound {
            let wanted = Int(min(range.upperBound - offset, UInt64(capacity)))
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<wanted])
            let count = try reading { () throws(Errno) in try file.read(into: piece, at: Int64(offset)) }
            guard count > 0 else { throw changed }
            try body(UnsafeRawBufferPointer(rebasing: piece[..<count]))
            offset += UInt64(count)
        }
        let now = try reading { () throws(Errno) in try file.status() }
        guard now.size == status.size, now.isUnchanged(since: status) else { throw changed }
    }

    var changed: SigningError { .refused(.imageChanged, context: "\(path): the file changed during the read") }

    private func reading<Result>(_ body: () throws(Errno) -> Result) throws(SigningError) -> Result {
        do { return try body() } catch { throw .refused(.readFailed, context: "\(path): \(error)") }
    }
}

extension Stat {
    /// Returns whether the modification time is the same as in `other`, an earlier status of the same file.
    fileprivate func isUnchanged(since other: Stat) -> Bool {
        st_mtim.tv_sec == other.st_mtim.tv_sec && st_mtim.tv_nsec == other.st_mtim.tv_nsec
    }
}

/// The image to sign: the contents of a file, or the bytes from a hex text.
enum ImageSource {
    case file(InputFile, size: UInt32)
    /// The bytes from a hex text. `text` is the file that contains the text.
    case memory(HexImage, size: UInt32, text: InputFile)

    /// The maximum length of hex text, in bytes. The longest accepted image has 64 MiB. With 16 image bytes in each record (line),
    /// the text of this image has 176 MiB. The limit is higher, because shorter records need more text for the same image.
    private static let maximumTextLength = 256 << 20

    /// Returns the image in a file; nil for a bundle.
    ///
    /// - Parameters:
    ///   - isRaw: true if the file's bytes are the image, also if they are hex text.
    ///   - note: receives a remark for the user about the addresses in a hex text.
    static func image(
        in file: InputFile, isRaw: Bool = false, note: (String) -> Void = { _ in }
    ) throws(SigningError) -> ImageSource? {
        switch FirmwareFileKind.detect(prefix: try file.prefix(FirmwareFileKind.prefixLength)) {
        case .bundle: return nil
        case .hexText(let format) where !isRaw:
            let image = try hexImage(format, in: file)
            let end = UInt64(image.startAddress) + UInt64(image.bytes.count)
            note(
                image.gapNote
                    ?? "the image is from \(format.name) text: \(image.bytes.count) bytes from "
                    + "0x\(String(image.startAddress, radix: 16)) to 0x\(String(end, radix: 16))")
            return .memory(image, size: UInt32(clamping: image.bytes.count), text: file)
        default: return .file(file, size: try size(file.size))
        }
    }

    private static func hexImage(_ format: HexFormat, in file: InputFile) throws(SigningError) -> HexImage {
        guard file.size <= maximumTextLength else {
            throw .refused(
                .imageTooLarge,
                context: "the \(format.name) text has \(file.size) bytes; the limit is \(maximumTextLength)",
                hint: "convert it to a binary: objcopy -I \(format.objcopyName) -O binary app.hex app.bin")
        }
        let text = try file.prefix(Int(file.size))
        do throws(HexError) {
            return try HexImage(parsing: text, as: format)
        } catch {
            throw .hex(error)
        }
    }

    /// The length of the image in bytes.
    var size: UInt32 {
        switch self {
        case .file(_, let size), .memory(_, let size, _): size
        }
    }

    /// Reads the whole image, calls `body` with each piece, and returns the description of the image.
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

    /// The error for an input that changed while the signer read it.
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
            try image.bytes.withUnsafeBufferPointer { (bytes) throws(SigningError) in
                try body(UnsafeRawBufferPointer(bytes))
            }
        }
    }

    private static func size(_ size: UInt64) throws(SigningError) -> UInt32 {
        guard size > 0 else { throw .refused(.emptyImage, context: "the image is empty") }
        guard let size = UInt32(exactly: size) else {
            throw .refused(.imageTooLarge, context: "the image has \(size) bytes; the limit is \(UInt32.max)")
        }
        return size
    }
}

internal import Glibc
internal import OTAFirmware
package import SystemPackage

/// The file to sign, which is opened once and read in parts.
package final class InputFile {
    /// The size in bytes when the file was opened.
    package let size: UInt64
    private let path: FilePath
    private let file: OpenFile
    private let status: Stat

    /// The maximum length of one read, in bytes. It is long enough for few calls and short enough for the processor's cache.
    package static let pieceLength = 256 << 10

    /// - Throws: `no-such-file`, `not-a-file`, `read-failed`.
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

    /// Copies a stream, such as standard input, to a file without a name, so that it can be read twice.
    ///
    /// - Parameters:
    ///   - stream: an open descriptor, which is read to its end and not closed.
    ///   - name: the name of the stream in messages.
    /// - Throws: `read-failed`; `cannot-create`, `write-failed` for the copy; `image-too-large` above 256 MiB.
    package init(copying stream: FileDescriptor, as name: FilePath) throws(SigningError) {
        path = name
        do { file = try OpenFile.scratch() } catch {
            throw .refused(
                .cannotCreate, context: "cannot create a temporary file in \(OpenFile.scratchFolder): \(error)")
        }
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceLength, alignment: 4096)
        defer { buffer.deallocate() }
        var length = 0
        while true {
            let count: Int
            do { count = try Errno.typed { try stream.read(into: buffer) } } catch {
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
                throw .refused(.writeFailed, context: "a temporary file in \(OpenFile.scratchFolder): \(error)")
            }
        }
        do { status = try file.status() } catch { throw .refused(.readFailed, context: "\(name): \(error)") }
        size = UInt64(length)
    }

    /// The maximum length of a stream, in bytes.
    private static let longestStream = 256 << 20

    /// Returns the first `count` bytes, or all bytes if the file is shorter.
    package func prefix(_ count: Int) throws(SigningError) -> [UInt8] {
        let length = min(size, UInt64(count))
        var bytes: [UInt8] = []
        bytes.reserveCapacity(Int(length))
        try forEachPiece(in: 0..<length) { piece in bytes.append(contentsOf: piece) }
        return bytes
    }

    /// Passes the bytes of `range` to `body` in order. The range must be within the file's size.
    ///
    /// - Throws: `read-failed`; `image-changed` if the size or the modification time has changed since the file was opened.
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
    /// Whether both have the same modification time, so the file was not written in between.
    fileprivate func isUnchanged(since other: Stat) -> Bool {
        st_mtim.tv_sec == other.st_mtim.tv_sec && st_mtim.tv_nsec == other.st_mtim.tv_nsec
    }
}

/// The source of the image's bytes.
enum ImageSource {
    case file(InputFile, size: UInt32)
    /// The bytes that an Intel HEX text describes.
    case memory([UInt8], size: UInt32, text: InputFile)

    /// The maximum length of Intel HEX text, in bytes. 64 MiB in records of 16 bytes need 176 MiB of text.
    private static let maximumTextLength = 256 << 20

    init(_ file: InputFile) throws(SigningError) {
        self = .file(file, size: try Self.size(file.size))
    }

    init(intelHexIn file: InputFile) throws(SigningError) {
        guard file.size <= Self.maximumTextLength else {
            throw .refused(
                .imageTooLarge,
                context: "the Intel HEX text has \(file.size) bytes; the limit is \(Self.maximumTextLength)",
                hint: "convert it to a binary: objcopy -I ihex -O binary app.hex app.bin")
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

    /// The error if two reads of the image give different bytes.
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
            throw .refused(.imageTooLarge, context: "the image has \(size) bytes; the limit is \(UInt32.max)")
        }
        return size
    }
}

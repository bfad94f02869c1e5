internal import Glibc
package import SystemPackage

/// The file to sign, which is opened once and read in parts.
package final class InputFile {
    /// The size in bytes when the file was opened.
    package let size: UInt64
    private let path: FilePath
    private let file: OpenFile
    private let status: Stat

    /// The greatest length of one read, in bytes: long enough for few calls, short enough for the processor's cache.
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
    /// - Throws: `read-failed`; `image-changed` if the size or the modification time differs from that at the opening.
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

    var changed: SigningError { .refused(.imageChanged, context: "\(path): it changed while it was read") }

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

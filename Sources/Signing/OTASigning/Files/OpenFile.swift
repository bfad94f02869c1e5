internal import Glibc
package import SystemPackage

/// Owns an open file descriptor. The descriptor is closed when the last reference to this object is released.
package final class OpenFile {
    package let descriptor: FileDescriptor

    init(
        _ path: FilePath, _ access: FileDescriptor.AccessMode, options: FileDescriptor.OpenOptions = [],
        permissions: FilePermissions? = nil
    ) throws(Errno) {
        descriptor = try Errno.typed {
            try FileDescriptor.open(path, access, options: options.union(.closeOnExec), permissions: permissions)
        }
    }

    /// Creates a temporary file without a name in `scratchFolder`. The kernel deletes the file when the file is closed, even if the process
    /// is killed.
    ///
    /// On a file system that does not support files without a name, this method creates a file with a name and deletes the name
    /// immediately.
    package static func scratch() throws(Errno) -> OpenFile {
        do throws(Errno) {
            return try OpenFile(
                scratchFolder, .readWrite, options: .temporaryFile, permissions: .ownerReadWrite)
        } catch {
            guard error.lacksTemporaryFiles else { throw error }
            let name = scratchFolder.appending(".otaflash-" + String(UInt64.random(in: .min ... .max), radix: 36))
            let file = try OpenFile(
                name, .readWrite, options: [.create, .exclusiveCreate], permissions: .ownerReadWrite)
            unlink(name.string)
            return file
        }
    }

    /// Returns the error for a temporary file that cannot be created or written.
    static func scratchFailed(_ code: SigningError.Code, _ error: Errno) -> SigningError {
        .refused(
            code, context: "a temporary file in \(scratchFolder): \(error)",
            hint: error.writeHint
                ?? "set TMPDIR to a folder with free space that you may write to: export TMPDIR=FOLDER")
    }

    /// The folder for temporary files. If `$TMPDIR` is an absolute path, this path is the folder. If not, the folder is `/tmp`.
    static var scratchFolder: FilePath {
        getenv("TMPDIR").map { FilePath(String(cString: $0)) }.flatMap { $0.isAbsolute ? $0 : nil } ?? "/tmp"
    }

    deinit { try? descriptor.close() }

    func status() throws(Errno) -> Stat { try Errno.typed { try descriptor.stat() } }

    /// Clears the non-blocking mode of the descriptor, so that a later read waits for data instead of failing with EAGAIN.
    func block() throws(Errno) {
        guard fcntl(descriptor.rawValue, F_SETFL, 0) == 0 else { throw Errno(rawValue: errno) }
    }

    /// Reads from the current position and returns the number of bytes read. The result is 0 at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        try Errno.typed { try descriptor.read(into: buffer) }
    }

    /// Reads from `offset` (in bytes) and returns the number of bytes read. The result is 0 at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int {
        try Errno.typed { try descriptor.read(fromAbsoluteOffset: offset, into: buffer) }
    }

    /// Writes all bytes at the current position.
    func write(_ bytes: UnsafeRawBufferPointer) throws(Errno) { _ = try Errno.typed { try descriptor.writeAll(bytes) } }

    /// Writes all bytes, starting at `offset` (in bytes).
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(Errno) {
        _ = try Errno.typed { try descriptor.writeAll(toAbsoluteOffset: offset, bytes) }
    }

    /// Waits until the file's contents are on the storage device (fsync).
    func synchronize() throws(Errno) {
        guard fsync(descriptor.rawValue) == 0 else { throw Errno(rawValue: errno) }
    }
}

extension Errno {
    /// Runs `body`, which calls functions of swift-system, and throws the errors of `body` as `Errno`. The functions of swift-system throw
    /// only `Errno`, but their declarations do not contain this type.
    static func typed<Result>(_ body: () throws -> Result) throws(Errno) -> Result {
        do { return try body() } catch { throw error as? Errno ?? .ioError }
    }

    /// Whether the error means that the path does not exist.
    var isMissing: Bool { self == .noSuchFileOrDirectory || self == .notDirectory }
}

extension FileDescriptor {
    /// Calls `call`, and repeats the call after the errors EINTR and EAGAIN. This method throws all other errors.
    ///
    /// A descriptor from another process, such as standard output, can be non-blocking, for example if that process uses the same pipe in
    /// an event loop. A system call on a non-blocking descriptor fails with EAGAIN if the descriptor is not ready. This method waits with
    /// poll(2) until the descriptor is ready.
    ///
    /// - Parameters:
    ///   - events: the event of poll(2) that makes the descriptor ready: `POLLIN` or `POLLOUT`.
    ///   - call: runs a system call. A negative result means an error, and `errno` contains the reason.
    private func waiting(for events: CInt, _ call: () -> Int) throws(Errno) -> Int {
        while true {
            let count = call()
            guard count < 0 else { return count }
            switch errno {
            case EINTR: continue
            case EAGAIN:
                var file = pollfd(fd: rawValue, events: Int16(events), revents: 0)
                guard poll(&file, 1, -1) >= 0 || errno == EINTR else { throw Errno(rawValue: errno) }
            default: throw Errno(rawValue: errno)
            }
        }
    }

    /// Reads from the current position. If no data is available, this method waits, even if the descriptor is non-blocking.
    ///
    /// - Returns: the number of bytes read; 0 at the end of the stream.
    package func readWaiting(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        try waiting(for: POLLIN) { Glibc.read(rawValue, buffer.baseAddress, buffer.count) }
    }

    /// Writes all bytes. If the reader of the stream is slow, this method waits, even if the descriptor is non-blocking.
    package func writeAllWaiting(_ bytes: UnsafeRawBufferPointer) throws(Errno) {
        var rest = bytes
        while !rest.isEmpty {
            let count = try waiting(for: POLLOUT) { Glibc.write(rawValue, rest.baseAddress, rest.count) }
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// Writes a text as UTF-8. If the reader of the stream is slow, this method waits, even if the descriptor is non-blocking.
    package func writeAllWaiting(_ text: String) throws(Errno) {
        var text = text
        try text.withUTF8 { bytes in
            Result { () throws(Errno) in try writeAllWaiting(UnsafeRawBufferPointer(bytes)) }
        }.get()
    }
}

extension FileDescriptor.OpenOptions {
    /// The flags of `O_TMPFILE` (open(2)), which create a file without a name. Swift does not import this macro, so this option combines
    /// its two parts: `O_DIRECTORY`, and `__O_TMPFILE` of asm-generic/fcntl.h, which is 0o20000000 on x86 and on ARM.
    static let temporaryFile: FileDescriptor.OpenOptions = [.directory, .init(rawValue: 0o20_000_000)]
}

extension Errno {
    /// The hint for a write that failed because the file became too large. The value is nil for every other error. The caller then uses its
    /// own hint.
    var writeHint: String? {
        self == .fileTooLarge ? "raise the maximum size of a file: ulimit -f unlimited" : nil
    }

    /// Whether this error of open(2) can mean that the file system does not support `O_TMPFILE`.
    var lacksTemporaryFiles: Bool { [Errno.notSupported, .isDirectory, .invalidArgument].contains(self) }
}

extension FilePath {
    /// The folder that contains the file at this path. The value is `.` for a path without a folder.
    var folder: FilePath {
        let parent = removingLastComponent()
        return parent.isEmpty ? "." : parent
    }

    /// Writes the entries of this folder to the storage device (fsync). Without this call, a power failure can undo the creation, renaming
    /// or deletion of a file in the folder.
    ///
    /// Errors are ignored, because some file systems do not support fsync on a folder.
    func synchronizeFolder() {
        guard let folder = try? OpenFile(self, .readOnly, options: .directory) else { return }
        try? folder.synchronize()
    }
}

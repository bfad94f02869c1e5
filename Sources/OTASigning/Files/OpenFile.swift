internal import Glibc
internal import SystemPackage

/// Owns a file descriptor.
final class OpenFile {
    let descriptor: FileDescriptor

    init(
        _ path: FilePath, _ access: FileDescriptor.AccessMode, options: FileDescriptor.OpenOptions = [],
        permissions: FilePermissions? = nil
    ) throws(Errno) {
        descriptor = try Errno.typed {
            try FileDescriptor.open(path, access, options: options.union(.closeOnExec), permissions: permissions)
        }
    }

    /// Creates a file without a name in `scratchFolder`. It is deleted when it is closed, also if the process is killed.
    static func scratch() throws(Errno) -> OpenFile {
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

    /// `$TMPDIR`, or `/tmp`.
    static var scratchFolder: FilePath {
        getenv("TMPDIR").map { FilePath(String(cString: $0)) }.flatMap { $0.isAbsolute ? $0 : nil } ?? "/tmp"
    }

    deinit { try? descriptor.close() }

    func status() throws(Errno) -> Stat { try Errno.typed { try descriptor.stat() } }

    /// Clears the non-blocking mode, so that reads wait for data.
    func block() throws(Errno) {
        guard fcntl(descriptor.rawValue, F_SETFL, 0) == 0 else { throw Errno(rawValue: errno) }
    }

    /// Reads from the current position. Returns the number of bytes read; 0 at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        try Errno.typed { try descriptor.read(into: buffer) }
    }

    /// Reads from `offset`, in bytes. Returns the number of bytes read; 0 at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int {
        try Errno.typed { try descriptor.read(fromAbsoluteOffset: offset, into: buffer) }
    }

    /// Writes all bytes at the current position.
    func write(_ bytes: UnsafeRawBufferPointer) throws(Errno) { _ = try Errno.typed { try descriptor.writeAll(bytes) } }

    /// Writes all bytes at `offset`, in bytes.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(Errno) {
        _ = try Errno.typed { try descriptor.writeAll(toAbsoluteOffset: offset, bytes) }
    }

    /// Returns after the storage device has the contents (fsync).
    func synchronize() throws(Errno) {
        guard fsync(descriptor.rawValue) == 0 else { throw Errno(rawValue: errno) }
    }
}

extension Errno {
    /// Runs `body` and throws its error as an `Errno`. The calls of swift-system throw no other type.
    static func typed<Result>(_ body: () throws -> Result) throws(Errno) -> Result {
        do { return try body() } catch { throw error as? Errno ?? .ioError }
    }

    /// Whether the error means that the path does not exist.
    var isMissing: Bool { self == .noSuchFileOrDirectory || self == .notDirectory }
}

extension FileDescriptor.OpenOptions {
    /// O_TMPFILE, a macro that Swift does not import (asm-generic/fcntl.h; the same on x86 and ARM).
    static let temporaryFile: FileDescriptor.OpenOptions = [.directory, .init(rawValue: 0o20_000_000)]
}

extension Errno {
    /// Whether this is the answer of a file system without `O_TMPFILE`.
    var lacksTemporaryFiles: Bool { [Errno.notSupported, .isDirectory, .invalidArgument].contains(self) }
}

extension FilePath {
    /// The folder that contains this path.
    var folder: FilePath {
        let parent = removingLastComponent()
        return parent.isEmpty ? "." : parent
    }

    /// Writes the folder's entries to storage, so that added, changed and removed names survive a loss of power.
    ///
    /// An error is ignored, because some file systems do not support it. The contents of the file are already on storage.
    func synchronizeFolder() {
        guard let folder = try? OpenFile(self, .readOnly, options: .directory) else { return }
        try? folder.synchronize()
    }
}

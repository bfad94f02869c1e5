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

    deinit { try? descriptor.close() }

    func status() throws(Errno) -> Stat { try Errno.typed { try descriptor.stat() } }

    /// Has reads wait, where it was opened as non-blocking.
    func block() throws(Errno) {
        guard fcntl(descriptor.rawValue, F_SETFL, 0) == 0 else { throw Errno(rawValue: errno) }
    }

    /// Bytes read; 0 at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        try Errno.typed { try descriptor.read(into: buffer) }
    }

    /// Bytes read from `offset` on; 0 at the end of the file.
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int {
        try Errno.typed { try descriptor.read(fromAbsoluteOffset: offset, into: buffer) }
    }

    /// Writes all of it.
    func write(_ bytes: UnsafeRawBufferPointer) throws(Errno) { _ = try Errno.typed { try descriptor.writeAll(bytes) } }

    /// Writes all of it at `offset`, in bytes.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(Errno) {
        _ = try Errno.typed { try descriptor.writeAll(toAbsoluteOffset: offset, bytes) }
    }

    /// Returns when the storage has it.
    func synchronize() throws(Errno) {
        guard fsync(descriptor.rawValue) == 0 else { throw Errno(rawValue: errno) }
    }
}

extension Errno {
    /// What `body` throws, which in this library can only be an `Errno`, as one.
    static func typed<Result>(_ body: () throws -> Result) throws(Errno) -> Result {
        do { return try body() } catch { throw error as? Errno ?? .ioError }
    }

    /// The path leads nowhere.
    var isMissing: Bool { self == .noSuchFileOrDirectory || self == .notDirectory }
}

extension FilePath {
    /// The folder that holds it.
    var folder: FilePath {
        let parent = removingLastComponent()
        return parent.isEmpty ? "." : parent
    }

    /// Makes sure that names made, changed or removed in this folder outlive a loss of power. File systems that do not
    /// know how are no reason to fail: the file itself is safe by then.
    func synchronizeFolder() {
        guard let folder = try? OpenFile(self, .readOnly, options: .directory) else { return }
        try? folder.synchronize()
    }
}

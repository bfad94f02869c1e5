internal import Glibc
package import SystemPackage

/// Writes an output file that gets its name only in `commit()`, when its contents are complete.
///
/// Before `commit()`, the file has no name, so the kernel deletes it if the process is killed. FAT and some network file systems do not
/// support files without a name. On these file systems, the file has a temporary name until `commit()`, and the kernel does not delete the
/// file if the process is killed.
package final class OutputFile {
    let path: FilePath
    private let replaces: Bool
    private let permissions: FilePermissions
    /// The file at `path` when this object was created (`Version`). The value is nil if no file existed or if the output is a stream. If
    /// `replaces` is true and `commit()` finds a different version at `path`, `commit()` does not replace the file and throws
    /// `output-changed`.
    private let replaced: Version?
    private let file: OpenFile
    private var temporary: FilePath?
    /// The stream to which `commit()` copies the contents. The value is nil if the output is a file with a name.
    private let stream: FileDescriptor?

    /// Creates an empty file in the folder of `path`.
    ///
    /// - Parameters:
    ///   - replaces: whether `commit()` may replace an existing file at `path`. The replacement is atomic.
    ///   - permissions: the permissions of the new file, from which the kernel removes the bits of the umask.
    ///   - named: whether to use a temporary name even if the file system supports files without a name (for tests).
    /// - Throws: `output-exists`, `cannot-create`.
    package init(
        _ path: FilePath, replaces: Bool, permissions: FilePermissions = OutputFile.usualPermissions,
        named: Bool = false
    ) throws(SigningError) {
        self.path = path
        self.replaces = replaces
        self.permissions = permissions
        stream = nil
        replaced = Version(at: path)
        if let existing = try? path.stat() {
            guard replaces else { throw Self.exists(path) }
            // Without this check, the new file could replace a device such as /dev/null.
            guard existing.type == .regular else {
                throw .refused(.cannotCreate, context: "\(path): the path exists and is not a regular file")
            }
        }
        do {
            if !named, let nameless = try Self.nameless(in: path.folder, permissions) {
                file = nameless
            } else {
                let name = path.unusedSibling()
                file = try OpenFile(
                    name, .readWrite, options: [.create, .exclusiveCreate], permissions: permissions)
                temporary = name
            }
        } catch {
            throw .refused(.cannotCreate, context: "\(path): \(error)")
        }
    }

    /// Creates an output for a stream, such as standard output. The signer writes the start of the output last, which is not possible in a
    /// stream. Therefore the contents are first written to a temporary file. `commit()` then copies this file to the stream.
    ///
    /// - Parameter name: the name of the stream in messages.
    /// - Throws: `cannot-create`.
    package init(to stream: FileDescriptor, as name: FilePath) throws(SigningError) {
        path = name
        replaces = false
        permissions = Self.usualPermissions
        replaced = nil
        self.stream = stream
        do { file = try OpenFile.scratch() } catch { throw OpenFile.scratchFailed(.cannotCreate, error) }
    }

    deinit {
        if let temporary { unlink(temporary.string) }
    }

    /// Writes all bytes, starting at `offset` (in bytes).
    ///
    /// - Throws: `write-failed`.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(SigningError) {
        try writing { () throws(Errno) in try file.write(bytes, at: Int64(offset)) }
    }

    /// Writes bytes that are the complete contents.
    ///
    /// - Throws: `write-failed`.
    package func write(_ bytes: [UInt8]) throws(SigningError) {
        // A closure cannot throw a typed error through `withUnsafeBytes`, so this closure returns the error.
        let error = bytes.withUnsafeBytes { buffer -> SigningError? in
            do throws(SigningError) { try write(buffer, at: 0) } catch { return error }
            return nil
        }
        if let error { throw error }
    }

    /// Waits until all bytes are on the storage device, and then gives the file its name. If the output is a stream, this method only
    /// copies all bytes to the stream.
    ///
    /// - Throws: `output-exists`, `cannot-create`, `write-failed`; `output-changed` if `replaces` is true, and another program has created,
    ///   changed or removed the file at `path` since this object was created.
    package func commit() throws(SigningError) {
        if let stream { return try copy(to: stream) }
        try writing { () throws(Errno) in try file.synchronize() }
        // Two processes can read the same file and add different signatures. If both then replaced the file, one signature would be lost.
        // While this process has the lock, no other otaflash process replaces the file between the next check and rename().
        let lock = FolderLock(path.folder)
        defer { lock?.end() }
        guard !replaces || Version(at: path) == replaced else {
            throw .refused(
                .outputChanged, context: "\(path): another program has changed the file since it was read",
                hint: "run the command again")
        }
        do {
            if temporary != nil {
                // rename() below would overwrite a file that another process created at `path` after the check in the initializer.
                // Therefore, first create an empty file at `path`: this fails if a file exists. Then rename() replaces only the empty file.
                if !replaces {
                    _ = try OpenFile(
                        path, .writeOnly, options: [.create, .exclusiveCreate], permissions: permissions)
                }
            } else if replaces {
                let name = path.unusedSibling()
                try link(to: name)
                temporary = name
            } else {
                try link(to: path)
            }
        } catch {
            if error == .fileExists { throw Self.exists(path) }
            throw .refused(.cannotCreate, context: "\(path): \(error)")
        }
        if let name = temporary {
            guard rename(name.string, path.string) == 0 else {
                let error = Errno(rawValue: errno)
                if !replaces { unlink(path.string) }
                throw .refused(.cannotCreate, context: "\(path): \(error)")
            }
            temporary = nil
        }
        path.folder.synchronizeFolder()
    }

    private func copy(to stream: FileDescriptor) throws(SigningError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: InputFile.pieceLength, alignment: 4096)
        defer { buffer.deallocate() }
        var offset: Int64 = 0
        while case let count = try writing({ () throws(Errno) in try file.read(into: buffer, at: offset) }), count > 0 {
            do throws(Errno) {
                try stream.writeAllWaiting(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            } catch {
                throw .refused(.writeFailed, context: "\(path): \(error)", hint: Self.streamHint(error))
            }
            offset += Int64(count)
        }
    }

    private static func streamHint(_ error: Errno) -> String {
        if let hint = error.writeHint { return hint }
        let cause =
            switch error {
            case .brokenPipe: "the program that reads the output has ended: check this program"
            case .noSpace: "the disk of the output is full: free space on it"
            default: "check the destination of the output"
            }
        return "\(cause); or write a file: -o FILE"
    }

    private func link(to name: FilePath) throws(Errno) {
        let origin = Self.link(of: file)
        guard linkat(AT_FDCWD, origin.string, AT_FDCWD, name.string, AT_SYMLINK_FOLLOW) == 0 else {
            throw Errno(rawValue: errno)
        }
    }

    private func writing<Result>(_ body: () throws(Errno) -> Result) throws(SigningError) -> Result {
        do {
            return try body()
        } catch {
            guard stream == nil else { throw OpenFile.scratchFailed(.writeFailed, error) }
            throw .refused(.writeFailed, context: "\(path): \(error)", hint: error.writeHint)
        }
    }

    private static func exists(_ path: FilePath) -> SigningError {
        .refused(
            .outputExists, context: "\(path): the file already exists",
            hint: "replace it with --force, or choose another path with -o FILE")
    }

    /// Creates a file without a name. Returns nil if the file system does not support files without a name.
    ///
    /// This method also returns nil if `/proc` is not available, because `commit()` needs `/proc` to give the file a name.
    private static func nameless(in folder: FilePath, _ permissions: FilePermissions) throws(Errno) -> OpenFile? {
        do throws(Errno) {
            let file = try OpenFile(folder, .readWrite, options: .temporaryFile, permissions: permissions)
            return (try? link(of: file).stat()) == nil ? nil : file
        } catch {
            guard error.lacksTemporaryFiles else { throw error }
            return nil
        }
    }

    /// Returns the path in `/proc` of an open file. linkat(2) needs this path to give the file a name (open(2), O_TMPFILE).
    private static func link(of file: OpenFile) -> FilePath { FilePath("/proc/self/fd/\(file.descriptor.rawValue)") }

    package static let usualPermissions: FilePermissions = [.ownerReadWrite, .groupRead, .otherRead]
}

/// Identifies the contents of an existing file by its inode, size and modification time. If another program changes or replaces the file,
/// the new version is not equal to the old version.
private struct Version: Equatable {
    private let device, inode: UInt64
    private let size: Int64
    private let seconds, nanoseconds: Int

    init?(at path: FilePath) {
        var status = Glibc.stat()
        guard fstatat(AT_FDCWD, path.string, &status, 0) == 0 else { return nil }
        (device, inode, size) = (UInt64(status.st_dev), UInt64(status.st_ino), Int64(status.st_size))
        (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
    }
}

/// Locks a folder while `OutputFile.commit()` gives an output file its name.
private struct FolderLock {
    private let descriptor: CInt

    /// Waits for the lock, but only for about two seconds, because a process of another user can hold the lock for a long time. Returns nil
    /// if another process still holds the lock after this time, or if the folder cannot be locked. The caller then continues without the
    /// lock.
    init?(_ folder: FilePath) {
        descriptor = open(folder.string, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        for _ in 0..<200 {
            if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return }
            guard errno == EWOULDBLOCK else { break }
            usleep(10_000)
        }
        close(descriptor)
        return nil
    }

    func end() { close(descriptor) }
}

extension FilePath {
    /// Returns the path of a hidden file in the same folder. The file's name has 64 random bits, so a collision is practically impossible.
    fileprivate func unusedSibling() -> FilePath {
        folder.appending(".otaflash-" + String(UInt64.random(in: .min ... .max), radix: 36))
    }
}

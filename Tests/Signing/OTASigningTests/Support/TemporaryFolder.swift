import Glibc
import SystemPackage

/// A temporary folder for one test. It is removed with its contents when the last reference is released.
final class TemporaryFolder {
    let path: FilePath

    init() throws {
        var template = Array("/tmp/otaflash-signing-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
        path = template.withUnsafeBufferPointer { buffer in
            FilePath(String(decoding: buffer.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self))
        }
    }

    deinit { remove(path) }

    /// Writes a new file and returns its path.
    @discardableResult
    func write(_ name: String, _ bytes: some Sequence<UInt8>, mode: FilePermissions = .ownerReadWrite) throws
        -> FilePath
    {
        let path = self / name
        unlink(path.string)
        let file = try FileDescriptor.open(
            path, .writeOnly, options: [.create, .truncate], permissions: .ownerReadWrite)
        try file.closeAfter { _ = try file.writeAll(bytes) }
        try changeMode(path, mode)
        return path
    }

    func makeFolder(_ name: String, mode: FilePermissions = .ownerReadWriteExecute) throws -> FilePath {
        guard mkdir((self / name).string, 0o700) == 0 else { throw Errno(rawValue: errno) }
        try changeMode(self / name, mode)
        return self / name
    }

    func remove(_ name: String) throws { remove(self / name) }

    /// Returns the names in the folder, sorted.
    func names() -> [String] { Self.names(in: path) }

    static func / (folder: TemporaryFolder, name: String) -> FilePath { folder.path.appending(name) }

    private func remove(_ path: FilePath) {
        if unlink(path.string) == 0 { return }
        for name in Self.names(in: path) { remove(path.appending(name)) }
        rmdir(path.string)
    }

    private static func names(in folder: FilePath) -> [String] {
        guard let stream = opendir(folder.string) else { return [] }
        defer { closedir(stream) }
        var names: [String] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { tuple in
                tuple.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }
}

func changeMode(_ path: FilePath, _ mode: FilePermissions) throws {
    guard chmod(path.string, mode.rawValue) == 0 else { throw Errno(rawValue: errno) }
}

/// Returns all bytes of a file.
func contents(of path: FilePath) throws -> [UInt8] {
    let file = try FileDescriptor.open(path, .readOnly)
    return try file.closeAfter {
        let size = Int(try file.stat().size)
        return try [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
            count = try file.read(into: UnsafeMutableRawBufferPointer(buffer))
        }
    }
}

func mode(of path: FilePath) throws -> FilePermissions { try FilePath(path.string).stat().permissions }

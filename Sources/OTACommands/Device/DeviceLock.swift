import Glibc
import OTAFirmware
import SystemPackage

/// One otaflash at a time works on a device: a file that is locked while a command runs, and holds the process id of the owner of the
/// lock. The lock ends with the process, however that ends. The file stays: if it were removed, two processes could hold two files of
/// one name.
///
/// The folder may be writable for others, so the file may not be ours: a link is not followed, and a file is changed only where this
/// program created it or it holds a process id as this program writes it.
final class DeviceLock {
    private let file: FileDescriptor

    /// - Throws: `Failure`: `device-in-use`, `cannot-create`.
    init(_ path: FilePath, in invocation: Invocation) throws(Failure) {
        do {
            try Folder.create(path.removingLastComponent())
            file = try Self.open(path)
        } catch {
            switch error as? Errno {
            case .tooManySymbolicLinkLevels?: throw Self.foreign(path.string, "it is a symbolic link")
            case .isDirectory?: throw Self.foreign(path.string, "it is a folder")
            default: throw Self.unusable(path.string, "\(error)")
            }
        }
        if let reason = Self.fault(of: file) {
            try? file.close()
            throw Self.foreign(path.string, reason)
        }
        guard flock(file.rawValue, LOCK_EX | LOCK_NB) == 0 else {
            let error = Errno(rawValue: errno)
            let holder = Self.holder(file)
            try? file.close()
            guard error == .wouldBlock else { throw Self.unusable(path.string, "\(error)") }
            throw Self.held(by: holder, in: invocation)
        }
        // For people: what counts is the lock. Always as long as before, so that nothing is ever cut off.
        let digits = String(getpid())
        let line = digits + String(repeating: " ", count: max(0, Self.lineLength - 1 - digits.count)) + "\n"
        _ = try? file.writeAll(toAbsoluteOffset: 0, line.utf8)
    }

    /// Of a process id, spaces and a line feed, in bytes.
    private static let lineLength = 16

    /// Opens the file, or makes it. A link is refused, and a pipe does not wait.
    private static func open(_ path: FilePath) throws -> FileDescriptor {
        try FileDescriptor.open(
            path, .readWrite, options: [.create, .noFollow, .closeOnExec, .nonBlocking], permissions: [.ownerReadWrite])
    }

    /// Why this is not a lock of this user; nil: it is one.
    private static func fault(of file: FileDescriptor) -> String? {
        guard let status = try? file.stat() else { return "it cannot be examined" }
        guard status.type == .regular else { return "it is not a regular file" }
        guard status.rawValue.st_uid == geteuid() else { return "it belongs to the user \(status.rawValue.st_uid)" }
        guard status.rawValue.st_nlink == 1 else { return "it is a hard link" }
        var bytes = [UInt8](repeating: 0, count: lineLength + 1)
        let count = bytes.withUnsafeMutableBytes { (try? file.read(fromAbsoluteOffset: 0, into: $0)) ?? 0 }
        let text = bytes[..<count]
        guard count <= lineLength, text.allSatisfy({ "0123456789 \n".utf8.contains($0) }) else {
            return "it does not contain a process id"
        }
        return nil
    }

    deinit { try? file.close() }

    /// Where the lock of a device lies that has no folder of its own.
    ///
    /// - Parameter name: the device's; what no file's name may hold is replaced.
    static func file(_ name: String) throws(Failure) -> FilePath {
        var folder = Environment.runtimeFolder
        if folder == nil { folder = try Environment.stateFolder() }
        guard let folder else {
            throw Failure(
                "cannot-create", .cannotCreate, "there is no place for the lock of a device: HOME is not set",
                hint: "set OTAFLASH_STATE_DIR to a folder that can be written to")
        }
        let name = name.map { $0.isLetter || $0.isNumber || ".-_".contains($0) ? $0 : "_" }
        return folder.appending(String(name) + ".lock")
    }

    private static func holder(_ file: FileDescriptor) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: lineLength)
        let count = bytes.withUnsafeMutableBytes { (try? file.read(fromAbsoluteOffset: 0, into: $0)) ?? 0 }
        return Int32(String(decoding: bytes[..<count].prefix { !" \n".utf8.contains($0) }, as: UTF8.self))
    }

    private static func foreign(_ path: String, _ reason: String) -> Failure {
        Failure(
            "cannot-create", .cannotCreate, "\(path) is not a lock of this user's otaflash: \(reason)",
            hint:
                "see what it is: ls -l \(Shell.quoted(path)); then remove it, or set OTAFLASH_STATE_DIR to a folder of your own"
        )
    }

    private static func held(by holder: Int32?, in invocation: Invocation) -> Failure {
        let device = invocation.device ?? "the device"
        let process = holder.map { "process \($0)" } ?? "another process"
        let stop = holder.map { "wait for it to end, or stop it: kill \($0)" } ?? "wait for it to end"
        return Failure("device-in-use", .unavailable, "another otaflash has \(device): \(process)", hint: stop)
    }

    private static func unusable(_ path: String, _ reason: String) -> Failure {
        Failure(
            "cannot-create", .cannotCreate, "\(path): the device cannot be locked: \(reason)",
            hint: "set OTAFLASH_STATE_DIR to a folder that can be written to")
    }
}

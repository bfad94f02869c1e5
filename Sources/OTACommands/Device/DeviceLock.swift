import Glibc
import OTAFirmware
import SystemPackage

/// One otaflash at a time speaks to a device: a file that is locked for the length of a command and holds the process id
/// of who locked it. The lock ends with the process, however that ends; the file stays, since removing it would let two
/// processes hold two files of one name.
final class DeviceLock {
    private let file: FileDescriptor

    /// - Throws: `Failure`: `device-held`, `cannot-create`.
    init(_ path: FilePath, in situation: Situation) throws(Failure) {
        do {
            try Folder.create(path.removingLastComponent())
            file = try FileDescriptor.open(
                path, .readWrite, options: [.create, .closeOnExec], permissions: [.ownerReadWrite])
        } catch {
            throw Self.unusable(path.string, "\(error)")
        }
        guard flock(file.rawValue, LOCK_EX | LOCK_NB) == 0 else {
            let error = Errno(rawValue: errno)
            let holder = Self.holder(file)
            try? file.close()
            guard error == .wouldBlock else { throw Self.unusable(path.string, "\(error)") }
            throw Self.held(by: holder, in: situation)
        }
        // For people: what counts is the lock.
        _ = ftruncate(file.rawValue, 0)
        _ = try? file.writeAll(toAbsoluteOffset: 0, "\(getpid())\n".utf8)
    }

    deinit { try? file.close() }

    /// Where the lock of a device lies that has no folder of its own.
    ///
    /// - Parameter name: the device's; what no file's name may hold is replaced.
    static func file(_ name: String) throws(Failure) -> FilePath {
        guard let folder = Environment.runtimeFolder ?? Environment.stateFolder else {
            throw Failure(
                "cannot-create", .cannotCreate, "there is no place for the lock of a device: HOME is not set",
                hint: "set OTAFLASH_STATE_DIR to a folder that can be written to")
        }
        let name = name.map { $0.isLetter || $0.isNumber || ".-_".contains($0) ? $0 : "_" }
        return folder.appending(String(name) + ".lock")
    }

    private static func holder(_ file: FileDescriptor) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = bytes.withUnsafeMutableBytes { (try? file.read(fromAbsoluteOffset: 0, into: $0)) ?? 0 }
        return Int32(String(decoding: bytes[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
    }

    private static func held(by holder: Int32?, in situation: Situation) -> Failure {
        let device = situation.device ?? "the device"
        let process = holder.map { "process \($0)" } ?? "another process"
        let stop = holder.map { "wait for it to end, or stop it: kill \($0)" } ?? "wait for it to end"
        return Failure("device-held", .unavailable, "another otaflash has \(device): \(process)", hint: stop)
    }

    private static func unusable(_ path: String, _ reason: String) -> Failure {
        Failure(
            "cannot-create", .cannotCreate, "\(path): the device cannot be locked: \(reason)",
            hint: "set OTAFLASH_STATE_DIR to a folder that can be written to")
    }
}

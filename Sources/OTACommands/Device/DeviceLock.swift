import BlueZ
import Glibc
import OTAFirmware
import SystemPackage

/// An exclusive lock on a device: only one otaflash at a time uses it.
///
/// The lock is an `flock` on a file that contains the process id of the owner. The kernel releases the lock when the process ends,
/// in any way. The file remains: if it were removed, two processes could lock two files of the same name.
///
/// Other users may be able to write to the folder and create the file. So links are not followed. Only an empty file, or a file
/// with a process id in the format of this program, is changed.
final class DeviceLock {
    private let file: FileDescriptor

    /// Acquires the lock, without waiting.
    ///
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
        // The process id is for people only; the lock itself is the `flock`. The length is constant, so no truncation is needed.
        let digits = String(getpid())
        let line = digits + String(repeating: " ", count: max(0, Self.lineLength - 1 - digits.count)) + "\n"
        _ = try? file.writeAll(toAbsoluteOffset: 0, line.utf8)
    }

    /// The length of the file in bytes: a process id, spaces and a line feed.
    private static let lineLength = 16

    /// Opens or creates the file. Symbolic links are refused. Opening a pipe does not block.
    private static func open(_ path: FilePath) throws -> FileDescriptor {
        try FileDescriptor.open(
            path, .readWrite, options: [.create, .noFollow, .closeOnExec, .nonBlocking], permissions: [.ownerReadWrite])
    }

    /// The reason why the file is not a lock of this user; nil: it is one.
    private static func fault(of file: FileDescriptor) -> String? {
        guard let status = try? file.stat() else { return "it cannot be examined" }
        guard status.type == .regular else { return "it is not a regular file" }
        guard status.rawValue.st_uid == geteuid() else { return "it belongs to user \(status.rawValue.st_uid)" }
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

    /// Returns the path of the lock for a device that is not a virtual device.
    ///
    /// - Parameter name: the name of the device. `_` replaces characters other than letters, digits, `.`, `-` and `_`.
    /// - Throws: `Failure`: `cannot-create`.
    static func file(_ name: String) throws(Failure) -> FilePath {
        var folder = Environment.runtimeFolder
        if folder == nil { folder = try Environment.stateFolder() }
        guard let folder else {
            throw Failure(
                "cannot-create", .cannotCreate, "no folder for the device lock: HOME is not set",
                hint: "set OTAFLASH_STATE_DIR to a writable folder")
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
            "cannot-create", .cannotCreate, "\(path) is not a lock file of this user's otaflash: \(reason)",
            hint:
                "show the file: ls -l \(Shell.quoted(path)); then remove it, or set OTAFLASH_STATE_DIR to your own folder"
        )
    }

    private static func held(by holder: Int32?, in invocation: Invocation) -> Failure {
        let device = invocation.device ?? "the device"
        let process = holder.map { "process \($0)" } ?? "another process"
        let stop = holder.map { "wait until it has ended, or stop it: kill \($0)" } ?? "wait until it has ended"
        return Failure("device-in-use", .unavailable, "another otaflash uses \(device): \(process)", hint: stop)
    }

    private static func unusable(_ path: String, _ reason: String) -> Failure {
        Failure(
            "cannot-create", .cannotCreate, "cannot lock the device with \(path): \(reason)",
            hint: "set OTAFLASH_STATE_DIR to a writable folder")
    }
}

/// The lock of a Bluetooth device. It is acquired when the device is found, before the first connection. Without the lock, a
/// second otaflash would end the link of the first.
actor BluetoothLock {
    private let invocation: Invocation
    private var lock: DeviceLock?
    /// The failure to lock the device; nil: no failure.
    private(set) var failure: Failure?
    /// The device that was found; nil: none yet.
    private(set) var device: BluetoothDevice?

    init(_ invocation: Invocation) { self.invocation = invocation }

    /// Locks the device until this object is freed.
    ///
    /// - Throws: `acquiredElsewhere` if the device cannot be locked; `failure` has the reason.
    func take(_ found: BluetoothDevice) throws(BlueZError) {
        // A device can report its name later, or another name after the first connection. The first reported name is kept.
        if device?.name == nil { device = found }
        guard lock == nil else { return }
        do throws(Failure) {
            lock = try DeviceLock(try Self.file(for: found), in: invocation)
        } catch {
            failure = error
            throw BlueZError(.acquiredElsewhere, error.message)
        }
    }

    private static func file(for device: BluetoothDevice) throws(Failure) -> FilePath {
        try DeviceLock.file("ble-\(device.address.description.filter { $0 != ":" })")
    }
}

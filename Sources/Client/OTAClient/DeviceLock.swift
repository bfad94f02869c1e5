package import BlueZ
import Glibc
import OTAFirmware
import OTASigning
public import SystemPackage

/// A lock on a device or a Bluetooth adapter, usually an exclusive lock. An exclusive lock allows only one otaflash process of this user at
/// a time to use the device.
///
/// The lock is an `flock` on a file that contains the process id of the owner. The kernel releases the lock when the process ends, also
/// after a crash. No process removes the lock file. If a process removed it, an earlier owner could still hold the lock of the removed
/// file. Another process could then lock a new file with the same name, and both processes would use the device.
///
/// Other users may have write access to the folder, and could create a file at the path of the lock file. So otaflash refuses a symbolic
/// link or a hard link at this path. It also refuses, and does not overwrite, a file of another user and a file that contains anything but
/// a process id.
package final class DeviceLock {
    private let file: FileDescriptor

    /// Acquires the lock without waiting.
    ///
    /// - Parameters:
    ///   - device: the address of the device or the name of the adapter, for error messages.
    ///   - isShared: true if other processes may hold a shared lock of the same file at the same time.
    /// - Throws: `deviceInUse`, `foreignLock`, `cannotCreate`.
    package init(_ path: FilePath, of device: String, isShared: Bool = false) throws(ClientError) {
        do {
            try Folder.create(path.removingLastComponent())
            file = try Self.open(path)
        } catch {
            switch error as? Errno {
            case .tooManySymbolicLinkLevels?: throw Self.foreign(path, "it is a symbolic link")
            case .isDirectory?: throw Self.foreign(path, "it is a folder")
            default: throw Self.unusable(path, "\(error)")
            }
        }
        if let reason = Self.fault(of: file) {
            try? file.close()
            throw Self.foreign(path, reason)
        }
        guard flock(file.rawValue, (isShared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0 else {
            let error = Errno(rawValue: errno)
            let holder = Self.holder(file)
            try? file.close()
            guard error == .wouldBlock else { throw Self.unusable(path, "\(error)") }
            throw Self.held(device, by: holder)
        }
        // The process id is only for error messages; the `flock` is the actual lock. The text has a constant length, so it overwrites an
        // older text completely.
        let digits = String(getpid())
        let line = digits + String(repeating: " ", count: max(0, Self.lineLength - 1 - digits.count)) + "\n"
        _ = try? file.writeAll(toAbsoluteOffset: 0, line.utf8)
    }

    /// The length of the lock file in bytes. The file contains a process id, spaces and a line feed.
    private static let lineLength = 16

    /// Opens or creates the lock file. Fails if the path is a symbolic link, and does not block if the path is a named pipe.
    private static func open(_ path: FilePath) throws -> FileDescriptor {
        try FileDescriptor.open(
            path, .readWrite, options: [.create, .noFollow, .closeOnExec, .nonBlocking], permissions: [.ownerReadWrite])
    }

    /// Returns the reason why the file is not a lock file of this user; nil: the file is a valid lock file.
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

    // A child process has a copy of the descriptor between fork and exec. While this copy exists, `close` does not release the lock, but
    // `LOCK_UN` releases it.
    deinit {
        _ = flock(file.rawValue, LOCK_UN)
        try? file.close()
    }

    /// Returns the path of the lock file of a real device or an adapter. (For virtual devices, see `VirtualDevices.lock`.)
    ///
    /// - Parameter name: the name of the lock file without `.lock`. Each character except letters, digits, `.`, `-` and `_` becomes `_`.
    /// - Throws: `cannotCreate`, `invalidStateFolder`.
    static func file(_ name: String) throws(ClientError) -> FilePath {
        let name = name.map { $0.isLetter || $0.isNumber || ".-_".contains($0) ? $0 : "_" }
        return try folder.appending(String(name) + ".lock")
    }

    /// The folder of the lock files of real devices and adapters.
    private static var folder: FilePath {
        get throws(ClientError) {
            var folder = Environment.runtimeFolder
            if folder == nil { folder = try Environment.stateFolder() }
            guard let folder else {
                throw ClientError(.cannotCreate, "no folder for the device lock: HOME is not set")
            }
            return folder
        }
    }

    /// Creates the folder of the lock files of real devices, and checks that this user can create files in it. A push to several devices
    /// calls this function first. Otherwise the push would fail for each device, after it has begun.
    ///
    /// - Throws: `cannotCreate`, `invalidStateFolder`.
    package static func prepareFolder() throws(ClientError) {
        let folder = try folder
        do throws(Errno) {
            try Folder.create(folder)
            guard access(folder.string, W_OK | X_OK) == 0 else { throw Errno(rawValue: errno) }
        } catch {
            throw ClientError(
                .cannotCreate, "cannot create the locks of the devices in \(folder): \(error)", path: folder)
        }
    }

    private static func holder(_ file: FileDescriptor) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: lineLength)
        let count = bytes.withUnsafeMutableBytes { (try? file.read(fromAbsoluteOffset: 0, into: $0)) ?? 0 }
        return Int32(String(decoding: bytes[..<count].prefix { !" \n".utf8.contains($0) }, as: UTF8.self))
    }

    private static func foreign(_ path: FilePath, _ reason: String) -> ClientError {
        ClientError(.foreignLock, "\(path) is not a lock file of this user's otaflash: \(reason)", path: path)
    }

    private static func held(_ device: String, by holder: Int32?) -> ClientError {
        let process = holder.map { "process \($0)" } ?? "another process"
        return ClientError(.deviceInUse, "another otaflash uses \(device): \(process)", process: holder)
    }

    private static func unusable(_ path: FilePath, _ reason: String) -> ClientError {
        ClientError(.cannotCreate, "cannot lock the device with \(path): \(reason)")
    }
}

/// The lock of a Bluetooth device.
///
/// The lock is acquired when the device is found, before the first connection. Without the lock, a second otaflash process would end the
/// link of the first process.
package actor BluetoothLock {
    /// The address that the user gave, for error messages.
    private let address: String
    /// True if this process already holds the lock of the adapter.
    private let holdsAdapter: Bool
    private var lock: DeviceLock?
    private var adapterLock: DeviceLock?
    /// The lock of a device that may be the restarted device with a new address.
    private var candidateLock: DeviceLock?
    private var candidate: BluetoothAddress?
    /// The reason why the device could not be locked; nil: no failure.
    package private(set) var failure: ClientError?
    /// The device that was found; nil: no device found yet.
    package private(set) var device: BluetoothDevice?
    /// True if the device has a new address after its restart.
    package private(set) var hasMoved = false

    package init(_ address: String, holdsAdapter: Bool = false) {
        self.address = address
        self.holdsAdapter = holdsAdapter
    }

    /// Locks the device until this object is freed. Also locks the adapter with a shared lock, unless `holdsAdapter` is true. If this
    /// object has already locked the device, the locks do not change.
    ///
    /// A device with another address is a candidate (`LinkProperties.candidate`) or another program of the device (`LinkTarget.program`). Its
    /// lock is held until `settle(_:isDevice:)`, or until this object is freed.
    ///
    /// - Throws: `acquiredElsewhere` if the device cannot be locked. In this case, the property `failure` contains the reason, unless the
    ///   device is a candidate.
    package func take(_ found: BluetoothDevice) throws(BlueZError) {
        if lock != nil, let device, device.address != found.address { return try takeCandidate(found) }
        // The first event of a device can be without a name. After a connection, the device can report another name. So `device` changes
        // only until it has a name.
        if device?.name == nil { device = found }
        guard lock == nil else { return }
        do throws(ClientError) {
            let lock = try DeviceLock(try Self.file(for: found), of: address)
            if !holdsAdapter {
                let adapter = found.adapterName
                adapterLock = try DeviceLock(DeviceLock.file(adapter), of: adapter, isShared: true)
            }
            self.lock = lock
        } catch {
            failure = error
            throw BlueZError(.acquiredElsewhere, error.context)
        }
    }

    private func takeCandidate(_ found: BluetoothDevice) throws(BlueZError) {
        // A second lock of the same file would fail, because a lock belongs to an open file.
        guard candidateLock == nil || candidate != found.address else { return }
        candidateLock = nil
        do throws(ClientError) {
            candidateLock = try DeviceLock(try Self.file(for: found), of: "ble:\(found.address)")
            candidate = found.address
        } catch {
            throw BlueZError(.acquiredElsewhere, error.context)
        }
    }

    /// Ends the check of a candidate.
    ///
    /// - Parameter isDevice: true if the candidate is the device. Its lock is then the lock of the device.
    package func settle(_ candidate: BluetoothDevice, isDevice: Bool) {
        if isDevice, let candidateLock { (lock, device, hasMoved) = (candidateLock, candidate, true) }
        candidateLock = nil
    }

    private static func file(for device: BluetoothDevice) throws(ClientError) -> FilePath {
        try DeviceLock.file("ble-\(device.address.description.filter { $0 != ":" })")
    }
}

/// The reason why a task could not start on this computer. Two errors are equal if their codes are equal.
public struct ClientError: Error, Sendable, Equatable {
    public enum Code: Sendable {
        /// `OTAFLASH_STATE_DIR` is not an absolute path.
        case invalidStateFolder
        /// The folder or the lock file cannot be created.
        case cannotCreate
        /// The file at the path of the lock file is not a lock file of this user.
        case foreignLock
        /// Another process uses the device.
        case deviceInUse
    }
    public let code: Code
    /// The description of the error for the user, without a full stop.
    public let context: String
    /// The file or folder that caused the error; nil: the error has no path.
    public let path: FilePath?
    /// The id of the process that uses the device; nil: unknown.
    public let process: Int32?

    init(_ code: Code, _ context: String, path: FilePath? = nil, process: Int32? = nil) {
        self.code = code
        self.context = context
        self.path = path
        self.process = process
    }

    public static func == (left: ClientError, right: ClientError) -> Bool { left.code == right.code }
}

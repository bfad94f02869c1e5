public import BlueZ
import Glibc
import SystemPackage

/// Reads a whole file. Throws ``Failure`` if the file cannot be read.
public func contents(of file: String, atMost limit: Int) throws -> [UInt8] {
    do {
        let descriptor = try FileDescriptor.open(FilePath(file), .readOnly)
        return try descriptor.closeAfter {
            var bytes: [UInt8] = []
            while bytes.count <= limit {
                let part = try [UInt8](unsafeUninitializedCapacity: 1 << 16) {
                    $1 = try descriptor.read(into: .init($0))
                }
                if part.isEmpty { break }
                bytes += part
            }
            return bytes
        }
    } catch let error as Errno { throw Failure("Cannot read \(file): \(error).") }
}

/// Checks whether ``save(_:as:)`` can probably write a file, so that a program knows it before it has the bytes. Changes no file. Throws
/// ``Failure``.
public func checkWritable(_ file: String) throws {
    let path = FilePath(file)
    let folder = path.removingLastComponent()
    let isFolder =
        path.lastComponent == nil || (try? FileDescriptor.open(path, .readOnly, options: .directory).close()) != nil
    let part = file + ".part"
    guard !isFolder, access(folder.isEmpty ? "." : folder.string, W_OK | X_OK) == 0,
        access(part, F_OK) != 0 || access(part, W_OK) == 0
    else {
        let reason = isFolder ? "it is a folder" : "\(Errno(rawValue: errno))"
        throw Failure("Cannot write '\(file)': \(reason); hint: name a file in a folder that exists and is writable")
    }
}

/// Writes a new file, or replaces a file. The file is complete when it gets its name. Throws ``Failure``.
public func save(_ bytes: [UInt8], as file: String) throws {
    let part = FilePath(file + ".part")
    do {
        let descriptor = try FileDescriptor.open(
            part, .writeOnly, options: [.create, .truncate], permissions: [.ownerReadWrite, .groupRead, .otherRead])
        try descriptor.closeAfter { _ = try descriptor.writeAll(bytes) }
    } catch let error as Errno { throw Failure("Cannot write \(part): \(error).") }
    guard rename(part.string, file) == 0 else { throw Failure("Cannot write \(file): \(Errno(rawValue: errno)).") }
}

/// The device of the last run. Its address is in a file, so that the next run can connect to it.
public struct LastDevice: Sendable {
    private let folder: FilePath?
    private var file: String? { folder.map { $0.appending("last-device").string } }

    /// - Parameters:
    ///   - program: the name of the program.
    ///   - environment: returns a variable of the environment. An empty value and a relative path count as not set (XDG Base
    ///     Directory Specification).
    public init(
        of program: String, environment: (String) -> String? = { getenv($0).map { String(cString: $0) } }
    ) {
        func folder(_ name: String) -> FilePath? {
            environment(name).map { FilePath($0) }.flatMap { $0.isAbsolute ? $0 : nil }
        }
        self.folder = (folder("XDG_STATE_HOME") ?? folder("HOME")?.appending(".local/state"))?.appending(program)
    }

    /// Nil: there is no last device.
    public var address: BluetoothAddress? {
        guard let file, let bytes = try? contents(of: file, atMost: 100) else { return nil }
        return BluetoothAddress(String(decoding: bytes, as: UTF8.self))
    }

    /// Ignores an error, because the conversation works without the file.
    public func set(_ address: BluetoothAddress) {
        guard let folder, let file else { return }
        // mkdir has no effect on a folder that exists.
        var path = FilePath("/")
        for component in folder.components {
            path.append(component)
            mkdir(path.string, 0o700)
        }
        try? save(Array(address.description.utf8), as: file)
    }
}

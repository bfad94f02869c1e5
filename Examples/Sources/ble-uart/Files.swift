import BlueZ
import ExampleSupport
import Glibc
import SystemPackage

/// Reads a whole file. Throws ``Failure`` if the file cannot be read.
func contents(of file: String, atMost limit: Int) throws -> [UInt8] {
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

/// Writes a new file, or replaces a file. The file is complete when it gets its name.
func save(_ bytes: [UInt8], as file: String) throws {
    let part = FilePath(file + ".part")
    do {
        let descriptor = try FileDescriptor.open(
            part, .writeOnly, options: [.create, .truncate], permissions: [.ownerReadWrite, .groupRead, .otherRead])
        try descriptor.closeAfter { _ = try descriptor.writeAll(bytes) }
    } catch let error as Errno { throw Failure("Cannot write \(part): \(error).") }
    guard rename(part.string, file) == 0 else { throw Failure("Cannot write \(file): \(Errno(rawValue: errno)).") }
}

/// The device of the last conversation. Its address is in a file, so that the next run can connect to it.
struct LastDevice: Sendable {
    private let folder: String?
    private var file: String? { folder.map { $0 + "/ble-uart-last-device" } }

    init() {
        let state = getenv("XDG_STATE_HOME").map { String(cString: $0) }
        folder = state ?? getenv("HOME").map { String(cString: $0) + "/.local/state" }
    }

    /// Nil: there is no last device.
    var address: BluetoothAddress? {
        guard let file, let bytes = try? contents(of: file, atMost: 100) else { return nil }
        return BluetoothAddress(String(decoding: bytes, as: UTF8.self))
    }

    /// Ignores an error, because the conversation works without the file.
    func set(_ address: BluetoothAddress) {
        guard let folder, let file else { return }
        mkdir(folder, 0o700)
        try? save(Array(address.description.utf8), as: file)
    }
}

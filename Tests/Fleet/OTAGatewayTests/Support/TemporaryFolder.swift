import FoundationEssentials
import Glibc
import OTALocalStore
import SystemPackage

/// A folder that is removed when the last reference is released.
final class TemporaryFolder: Sendable {
    let path: FilePath

    init() throws {
        var template = Array("/tmp/otaflash-gateway-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
        path = FilePath(String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self))
    }

    deinit { try? FileManager.default.removeItem(atPath: path.string) }
}

/// The store of a test's fleet.
enum StoreKind: CaseIterable {
    case memory, file

    /// Opens the file; nil: the store is in memory.
    func open(in folder: TemporaryFolder) async throws -> LocalStore? {
        guard self == .file else { return nil }
        return try await LocalStore(folder.path.appending("fleet.sqlite"), waiting: .seconds(60))
    }
}

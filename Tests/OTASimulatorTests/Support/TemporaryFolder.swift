import FoundationEssentials
import SystemPackage

/// A new folder, gone when `body` is through.
func withTemporaryFolder<Result>(_ body: (FilePath) throws -> Result) throws -> Result {
    let folder = FilePath("/tmp/otaflash-simulator-\(UUID().uuidString)")
    try FileManager.default.createDirectory(atPath: folder.string, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: folder.string) }
    return try body(folder)
}

import FoundationEssentials
import SystemPackage

/// Runs `body` with a new folder, and removes the folder afterwards.
func withTemporaryFolder<Result>(_ body: (FilePath) throws -> Result) throws -> Result {
    let folder = FilePath("/tmp/otaflash-simulator-\(UUID().uuidString)")
    try FileManager.default.createDirectory(atPath: folder.string, withIntermediateDirectories: false)
    defer { try? FileManager.default.removeItem(atPath: folder.string) }
    return try body(folder)
}

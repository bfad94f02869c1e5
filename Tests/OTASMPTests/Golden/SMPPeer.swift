import Glibc
import Subprocess
import SystemPackage
import Testing

/// The published SMP package for Python, run by `peer.py`.
enum SMPPeer {
    /// Its answer to each of the lines.
    static func run(_ mode: String, _ lines: [String] = []) async throws -> [String] {
        let python = python()
        try #require(access(python.string, X_OK) == 0, "there is no \(python): type scripts/setup test")
        let script = GoldenFile.folder.appending("peer.py")
        let result = try await Subprocess.run(
            .path(python), arguments: [script.string, mode], input: .string(lines.map { $0 + "\n" }.joined()),
            output: .string(limit: 1 << 24), error: .string(limit: 1 << 20))
        try #require(result.terminationStatus.isSuccess, "type scripts/setup test: \(result.standardError)")
        return result.standardOutput.split(separator: "\n").map(String.init)
    }

    /// Of the environment that scripts/setup makes.
    private static func python() -> FilePath {
        let cache = environment("XDG_CACHE_HOME") ?? (environment("HOME") ?? "") + "/.cache"
        return FilePath(cache).appending("otaflash/venv/bin/python")
    }

    private static func environment(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }
}

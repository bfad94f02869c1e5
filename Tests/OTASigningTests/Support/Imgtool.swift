import Glibc
import Subprocess
import SystemPackage
import Testing

/// imgtool 2.5.0, of the environment that scripts/setup makes: what our images are held against.
enum Imgtool {
    struct Answer {
        let succeeded: Bool
        /// What it printed, line feeds as `\n`.
        let output: String
    }

    /// Runs commands one after the other in one process.
    static func run(_ commands: [[String]]) async throws -> [Answer] {
        let python =
            environment("XDG_CACHE_HOME", else: environment("HOME", else: "") + "/.cache")
            + "/otaflash/venv/bin/python"
        try #require(access(python, X_OK) == 0, "there is no \(python): type scripts/setup test")
        let script = FilePath(#filePath).removingLastComponent().appending("imgtool_peer.py")
        let lines = commands.map { $0.joined(separator: "\t") + "\n" }.joined()
        let result = try await Subprocess.run(
            .path(FilePath(python)), arguments: [script.string], input: .array(Array(lines.utf8)),
            output: .string(limit: 16 << 20), error: .string(limit: 1 << 16))
        let answers = (result.standardOutput).split(separator: "\n").map { line in
            let parts = line.split(separator: "\t", maxSplits: 1, omittingEmptySubsequences: false)
            return Answer(succeeded: parts[0] == "0", output: String(parts.last ?? ""))
        }
        try #require(answers.count == commands.count, "\(result.standardError)")
        return answers
    }

    private static func environment(_ name: String, else value: String) -> String {
        guard let found = getenv(name), found.pointee != 0 else { return value }
        return String(cString: found)
    }
}

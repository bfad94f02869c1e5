import Glibc
import OTATestSupport
import SystemPackage
import Testing

/// Runs imgtool 2.5.0, which scripts/setup installs. The tests compare images with it.
enum Imgtool {
    struct Answer {
        let succeeded: Bool
        /// The output, with line feeds as `\n`.
        let output: String
    }

    /// Runs the commands in order, in one process.
    static func run(_ commands: [[String]]) async throws -> [Answer] {
        let python = PythonEnvironment.python
        try #require(access(python, X_OK) == 0, "\(python) does not exist; run scripts/setup test")
        let script = FilePath(#filePath).removingLastComponent().appending("imgtool_peer.py")
        let lines = commands.map { $0.joined(separator: "\t") + "\n" }.joined()
        let command = try await Command.run(python, [script.string], input: Array(lines.utf8))
        let answers = command.outputText.split(separator: "\n").map { line in
            let parts = line.split(separator: "\t", maxSplits: 1, omittingEmptySubsequences: false)
            return Answer(succeeded: parts[0] == "0", output: String(parts.last ?? ""))
        }
        try #require(answers.count == commands.count, "\(command.errorText)")
        return answers
    }
}

import Glibc
import OTATestSupport
import SystemPackage
import Testing

/// The published SMP package for Python, run by `peer.py`.
enum SMPPeer {
    /// Its answer to each of the lines.
    static func run(_ mode: String, _ lines: [String] = []) async throws -> [String] {
        let python = PythonEnvironment.python
        try #require(access(python, X_OK) == 0, "there is no \(python): type scripts/setup test")
        let script = GoldenFile.folder.appending("peer.py")
        let command = try await Command.run(
            python, [script.string, mode], input: Array(lines.map { $0 + "\n" }.joined().utf8))
        try #require(command.succeeded, "type scripts/setup test: \(command.errorText)")
        return command.outputText.split(separator: "\n").map(String.init)
    }
}

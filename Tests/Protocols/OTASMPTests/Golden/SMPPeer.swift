import Glibc
import OTATestSupport
import SystemPackage
import Testing

/// The published SMP package for Python, run by `peer.py`.
enum SMPPeer {
    /// Runs `peer.py` with this mode and these input lines, and returns the lines of its output.
    static func run(_ mode: String, _ lines: [String] = []) async throws -> [String] {
        let python = PythonEnvironment.python
        try #require(access(python, X_OK) == 0, "\(python) does not exist; hint: run scripts/setup test")
        let script = GoldenFile.folder.appending("peer.py")
        let command = try await Command.run(
            python, [script.string, mode], input: Array(lines.map { $0 + "\n" }.joined().utf8))
        try #require(command.succeeded, "peer.py failed: \(command.errorText); hint: run scripts/setup test")
        return command.outputText.split(separator: "\n").map(String.init)
    }
}

import NATS
import NATSTestSupport
import OTATestSupport
import SystemPackage
import Testing

/// The program `peer.py`, which uses nats-py, another NATS client.
struct Peer {
    let server: TestServer

    /// Runs one command of the peer and returns its output without the line break at the end.
    @discardableResult func callAsFunction(_ arguments: String...) async throws -> String {
        try await Self.run([server.url] + arguments)
    }

    static func run(_ arguments: [String]) async throws -> String {
        let script = FilePath(#filePath).removingLastComponent().appending("peer.py")
        let result = try await Command.run(PythonEnvironment.python, [script.string] + arguments)
        try #require(result.succeeded, "peer.py failed; hint: run scripts/setup test\n\(result.errorText)")
        return String(result.outputText.dropLast(result.outputText.hasSuffix("\n") ? 1 : 0))
    }
}

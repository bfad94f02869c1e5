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

    /// Runs `body` with options for the server `login-server` of the peer, and for its user.
    ///
    /// - Parameter kinds: the kinds of the nonces.
    static func withLoginServer(_ kinds: [String], _ body: (NATSOptions) async throws -> Void) async throws {
        try await TemporaryFolder.run { folder in
            let file = folder.appending("user.nk").string
            _ = try await run(["key", file])
            let arguments = [script.string, "login-server", file] + kinds
            try await TestServer.run(program: PythonEnvironment.python, arguments: arguments) { port in
                var options = NATSOptions(servers: ["nats://127.0.0.1:\(port)"])
                options.credentials = file
                options.connectTimeout = .seconds(60)
                options.reconnectWait = .milliseconds(20)
                try await body(options)
            }
        }
    }

    private static let script = FilePath(#filePath).removingLastComponent().appending("peer.py")

    static func run(_ arguments: [String]) async throws -> String {
        let result = try await Command.run(PythonEnvironment.python, [script.string] + arguments)
        try #require(result.succeeded, "peer.py failed; hint: run scripts/setup test\n\(result.errorText)")
        return String(result.outputText.dropLast(result.outputText.hasSuffix("\n") ? 1 : 0))
    }
}

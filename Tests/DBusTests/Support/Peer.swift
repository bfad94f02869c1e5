import DBus
import Glibc
import Subprocess
import SystemPackage
import Testing

/// `peer.py`: a program on the same bus that is not built upon libdbus.
struct Peer: Sendable {
    static let name = "org.example.Peer"
    static let path: DBusObjectPath = "/org/example/Peer"
    let connection: DBusConnection

    /// A bus, the peer and a connection of ours.
    @discardableResult static func run<Result: Sendable>(
        _ body: (DBusConnection, Peer) async throws -> Result
    ) async throws -> Result {
        try await TestBus.withConnection { connection, bus in
            try await run(on: bus) { try await body(connection, Peer(connection: connection)) }
        }
    }

    /// The peer alone, while `body` runs.
    @discardableResult static func run<Result: Sendable>(
        on bus: TestBus, _ body: () async throws -> Result
    ) async throws -> Result {
        let script = FilePath(#filePath).removingLastComponent().appending("peer.py")
        let python = python()
        try #require(access(python.string, X_OK) == 0, "there is no \(python): type scripts/setup test")
        let result = try await Subprocess.run(
            .path(python), arguments: [script.string, bus.address], input: .inputWriter, output: .sequence,
            error: .currentStandardError
        ) { execution in
            defer { try? execution.send(signal: .kill) }
            var lines = execution.standardOutput.strings().makeAsyncIterator()
            try #require(try await lines.next() == "ready", "the Python peer does not run: type scripts/setup test")
            return try await body()
        }
        return result.closureResult
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

    /// Calls one of its methods.
    @discardableResult
    func call(_ member: String, _ arguments: DBusValue...) async throws -> [DBusValue] {
        try await connection.call(Self.name, Self.path, Self.name, member, arguments)
    }

    /// Runs Python there; the text of what it returns.
    func python(_ code: String, _ arguments: DBusValue...) async throws -> String {
        try await connection.call(Self.name, Self.path, Self.name, "Run", [.string(code)] + arguments).require(
            0, \.string)
    }
}

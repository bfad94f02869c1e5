import DBus
import Glibc
import Subprocess
import SystemPackage
import Testing

/// The program `peer.py` on the same bus. It uses dbus-fast, not libdbus.
struct Peer: Sendable {
    static let name = "org.example.Peer"
    static let path: DBusObjectPath = "/org/example/Peer"
    let connection: DBusConnection

    /// Runs `body` with a new bus, a connection and the peer.
    @discardableResult static func run<Result: Sendable>(
        _ body: (DBusConnection, Peer) async throws -> Result
    ) async throws -> Result {
        try await TestBus.withConnection { connection, bus in
            try await run(on: bus) { try await body(connection, Peer(connection: connection)) }
        }
    }

    /// Runs the peer while `body` runs.
    @discardableResult static func run<Result: Sendable>(
        on bus: TestBus, _ body: () async throws -> Result
    ) async throws -> Result {
        let script = FilePath(#filePath).removingLastComponent().appending("peer.py")
        let python = python()
        try #require(access(python.string, X_OK) == 0, "\(python) does not exist; hint: run scripts/setup test")
        let result = try await Subprocess.run(
            .path(python), arguments: [script.string, bus.address], input: .inputWriter, output: .sequence,
            error: .currentStandardError
        ) { execution in
            defer { try? execution.send(signal: .kill) }
            var lines = execution.standardOutput.strings().makeAsyncIterator()
            try #require(
                try await lines.next() == "ready", "the Python peer did not start; hint: run scripts/setup test")
            return try await body()
        }
        return result.closureResult
    }

    /// The Python of the environment that scripts/setup creates.
    private static func python() -> FilePath {
        let cache = environment("XDG_CACHE_HOME") ?? (environment("HOME") ?? "") + "/.cache"
        return FilePath(cache).appending("otaflash/venv/bin/python")
    }

    private static func environment(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }

    /// Returns a time in which the peer replies, also on a busy machine: ten times the duration of a call, and at least 1 s.
    func usualLimit() async throws -> Duration {
        let begun = ContinuousClock.now
        _ = try await python("await asyncio.sleep(0.05)")
        return max(.seconds(1), begun.duration(to: .now) * 10)
    }

    /// Calls a method of the peer.
    @discardableResult
    func call(_ member: String, _ arguments: DBusValue...) async throws -> [DBusValue] {
        try await connection.call(Self.name, Self.path, Self.name, member, arguments)
    }

    /// Runs Python code in the peer. Returns the text of the result.
    func python(_ code: String, _ arguments: DBusValue...) async throws -> String {
        try await connection.call(Self.name, Self.path, Self.name, "Run", [.string(code)] + arguments).require(
            0, \.string)
    }
}

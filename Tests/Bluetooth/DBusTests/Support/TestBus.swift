import DBus
import Subprocess
import SystemPackage
import Testing

/// A dbus-daemon for one test. It ends with the test.
struct TestBus: Sendable {
    var address: String
    /// Kills the daemon.
    var kill: @Sendable () throws -> Void

    @discardableResult static func run<Result: Sendable>(_ body: (TestBus) async throws -> Result)
        async throws -> Result
    {
        let result = try await Subprocess.run(
            .name("dbus-daemon"), arguments: ["--session", "--print-address=1", "--nofork", "--nopidfile"],
            input: .none,
            output: .sequence, error: .discarded
        ) { execution in
            defer { try? execution.send(signal: .kill) }
            var lines = execution.standardOutput.strings().makeAsyncIterator()
            let address = try #require(try await lines.next(), "dbus-daemon printed no address")
            return try await body(TestBus(address: address) { try execution.send(signal: .kill) })
        }
        return result.closureResult
    }

    /// Runs `body` with a connection to a new bus.
    @discardableResult static func withConnection<Result: Sendable>(
        _ body: (DBusConnection, TestBus) async throws -> Result
    ) async throws -> Result {
        try await run { bus in
            try await DBusConnection.withConnection(.address(bus.address)) { try await body($0, bus) }
        }
    }
}

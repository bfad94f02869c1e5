package import DBus
import Subprocess

/// A dbus-daemon for one test. It ends with the test.
package enum PrivateBus {
    package struct Silent: Error {}

    package static func run<Result: Sendable>(
        _ body: @Sendable (DBusBus) async throws -> Result
    ) async throws -> Result {
        let result = try await Subprocess.run(
            .name("dbus-daemon"), arguments: ["--session", "--print-address=1", "--nofork", "--nopidfile"],
            input: .none, output: .sequence, error: .discarded
        ) { execution in
            defer { try? execution.send(signal: .kill) }
            var lines = execution.standardOutput.strings().makeAsyncIterator()
            guard let address = try await lines.next() else { throw Silent() }
            return try await body(.address(address))
        }
        return result.closureResult
    }
}

import BlueZ
import FakeBlueZ
import Testing

/// These tests run with the fake and with the real bluetoothd. The radio lab has only one bluetoothd, so run them there with
/// `--no-parallel`.
@Suite("Conformance of the fake and the real bluetoothd")
struct ConformanceTests {}

extension World {
    /// Waits until no link and no discovery is left. bluetoothd takes 2 s to end a link.
    func expectQuiet() async throws {
        try await until("no discovery is left") { try await !isDiscovering }
        try await until("no link is left") { try await !isConnected }
    }

    /// Repeats `body` until it succeeds, at most 600 times. A restarted bluetoothd needs a short time, and it has no event for its
    /// readiness.
    func retrying<Result>(_ body: () async throws -> Result) async throws -> Result {
        for _ in 0..<600 {
            if let result = try? await body() { return result }
            try await Task.sleep(for: .milliseconds(50))
        }
        return try await body()
    }
}

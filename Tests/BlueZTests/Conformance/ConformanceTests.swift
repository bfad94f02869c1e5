import BlueZ
import FakeBlueZ
import Testing

/// What holds for the fake and for the real bluetoothd alike. In the radio lab there is one world only: `--no-parallel`.
struct ConformanceTests {}

extension World {
    /// No link and no discovery is left; bluetoothd takes 2 s to end a link.
    func expectQuiet() async throws {
        try await until("no discovery is left") { try await !isDiscovering }
        try await until("no link is left") { try await !isConnected }
    }

    /// A service that has just been started is not ready at once.
    func retrying<Result>(_ body: () async throws -> Result) async throws -> Result {
        for _ in 0..<200 {
            if let result = try? await body() { return result }
            try await Task.sleep(for: .milliseconds(50))
        }
        return try await body()
    }
}

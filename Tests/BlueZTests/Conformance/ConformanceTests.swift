import BlueZ
import FakeBlueZ
import Testing

/// What holds for the fake and for the real bluetoothd alike. In the radio lab there is one world only: `--no-parallel`.
struct ConformanceTests {}

extension World {
    struct TimeIsUp: Error {
        let what: String
    }

    /// Looks until it is so, for 20 s at most.
    func until(_ what: String, _ condition: () async throws -> Bool) async throws {
        for _ in 0..<2_000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw TimeIsUp(what: what)
    }

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

extension World {
    package struct TimeIsUp: Error {
        package let what: String

        package init(what: String) { self.what = what }
    }

    /// Looks until it is so, for 20 s at most.
    package func until(_ what: String, _ condition: () async throws -> Bool) async throws {
        for _ in 0..<2_000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        throw TimeIsUp(what: what)
    }
}

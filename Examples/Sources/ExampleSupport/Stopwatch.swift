/// Measures the time from its creation, for a value that has no clock.
public struct Stopwatch: Sendable {
    private let start = ContinuousClock.now

    public init() {}

    public var now: Duration { start.duration(to: .now) }

    /// Starts a task that calls `body` at this time.
    public func call(at time: Duration, _ body: @escaping @Sendable () -> Void) -> Task<Void, Never> {
        Task { if (try? await Task.sleep(until: start + time, clock: .continuous)) != nil { body() } }
    }
}

/// Returns the result of `body`. Nil: `body` took more than this time, and was cancelled.
public func atMost<Result: Sendable>(
    _ time: Duration, _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result? {
    try await withThrowingTaskGroup(of: Result?.self) { group in
        defer { group.cancelAll() }
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: time)
            return nil
        }
        return try await group.next() ?? nil
    }
}

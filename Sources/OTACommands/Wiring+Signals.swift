extension Wiring {
    /// Runs `body`, which is cancelled by the first signal; a second one ends the process at once.
    ///
    /// - Throws: what `body` throws; `Failure` where a signal came.
    func untilSignalled<Result: Sendable>(
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        let interrupts = Interrupts()
        return try await interrupts.during(onFirst: {}) { stops in
            let work = Task { try await body() }
            let watcher = Task { for await _ in stops { work.cancel() } }
            defer { watcher.cancel() }
            do {
                let result = try await work.value
                if let signal = interrupts.signal { throw Failure.interrupted(by: signal) }
                return result
            } catch {
                if let signal = interrupts.signal { throw Failure.interrupted(by: signal) }
                throw error
            }
        }
    }
}

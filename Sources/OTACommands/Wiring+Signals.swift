import Glibc

extension Wiring {
    /// Runs `body`, which is cancelled by the first signal; a second one ends the process at once.
    ///
    /// - Throws: what `body` throws; `Failure` where a signal came.
    func untilSignalled(_ body: @escaping @Sendable () async throws -> Void) async throws {
        do {
            try await Interrupts.during {
                console.note("stopping; once more to stop at once")
            } body: { stops in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await body() }
                    group.addTask { for await _ in stops { return } }
                    try await group.next()
                    group.cancelAll()
                }
            }
        } catch {
            guard Interrupts.signal == nil else { throw Self.stopped }
            throw error
        }
        guard Interrupts.signal == nil else { throw Self.stopped }
    }

    private static var stopped: Failure { .interrupted(by: Interrupts.signal ?? SIGINT) }
}

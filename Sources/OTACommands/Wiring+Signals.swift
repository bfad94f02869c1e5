import Glibc

extension Wiring {
    /// Runs `body`. The first signal cancels it; a second signal ends the process at once.
    ///
    /// - Throws: the error of `body`; `Failure`: `interrupted` after a signal.
    func untilSignalled(_ body: @escaping @Sendable () async throws -> Void) async throws {
        do {
            try await Interrupts.during {
                console.note("stopping; press Ctrl-C again to stop at once")
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

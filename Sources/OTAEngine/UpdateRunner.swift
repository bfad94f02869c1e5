public import OTATransport
public import OTAUpdate

/// Carries out what a session asks for: one mailbox, one loop, one timer. The only place that suspends with state in
/// hand; in real and in virtual time alike.
public struct UpdateRunner<C: Clock>: Sendable where C.Duration == Duration {
    private let clock: C
    private let limit: Duration?
    private let report: @Sendable (UpdateProgress, Duration) -> Void

    /// - Parameters:
    ///   - limit: how long a run may take. Afterwards the session is stopped as by an interrupt, and the run ends with `timedOut`.
    ///   - report: called in order with what the session tells, and the time since it was started.
    public init(
        clock: C, limit: Duration? = nil,
        report: @escaping @Sendable (UpdateProgress, Duration) -> Void = { _, _ in }
    ) {
        self.clock = clock
        self.limit = limit
        self.report = report
    }

    /// Runs `session` to its end.
    ///
    /// An interrupt is a message, not cancellation, which would tear the link from under the session.
    ///
    /// - Parameter interrupts: each element asks the session to stop.
    public func run(
        _ session: some UpdateSession, over transport: some Transport,
        interrupts: some AsyncSequence<Void, Never> & Sendable
    ) async throws(UpdateError) -> UpdateReport {
        let outcome = await withDiscardingTaskGroup { group in
            let (mailbox, post) = AsyncStream.makeStream(of: RunnerMessage<C.Instant>.self)
            group.addTask { for await _ in interrupts { post.yield(.interrupted) } }
            if let limit {
                let (clock, instant) = (clock, clock.now.advanced(by: limit))
                group.addTask {
                    do {
                        try await clock.sleep(until: instant, tolerance: nil)
                        post.yield(.limitReached)
                    } catch {
                        // Cancelled: the limit is not reached.
                    }
                }
            }
            var loop = RunnerLoop(
                session: session, transport: transport, clock: clock, limit: limit, report: report, post: post)
            let outcome = await loop.run(mailbox, in: &group)
            group.cancelAll()
            return outcome
        }
        return try outcome.get()
    }
}

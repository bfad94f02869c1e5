import DescriptorIO
public import OTAFirmware
public import OTAUpdate

/// Runs a session over a transport, in real or virtual time. The runner passes events to the session and performs the session's actions.
///
/// All events go through one mailbox to one loop. Only this loop has mutable state. Therefore the runner needs no locks.
public struct UpdateRunner<C: Clock>: Sendable where C.Duration == Duration {
    private let clock: C
    private let limit: Duration?
    private let used: Duration
    private let encoder: Encoder?
    private let awaitsLinkEnd: Bool
    private let report: @Sendable (UpdateProgress, Duration) -> Void
    private let gate: StageGate

    /// A function that encodes the image of a push for the session. The runner calls the function in a child task, and the session
    /// continues during the call.
    ///
    /// The run ends only after the encoder has returned. Therefore an encoder must return soon after its task is cancelled.
    public typealias Encoder = @Sendable (EncodingRequest) async -> Result<EncodedImage, EncodingFailure>

    /// Creates a runner.
    ///
    /// - Parameters:
    ///   - clock: the clock of the session, real or virtual.
    ///   - limit: the maximum duration of a run; nil for no limit. A run that reaches the limit is interrupted, and `run` throws
    ///     `timedOut`.
    ///   - used: the part of `limit` that has passed before the run.
    ///   - encoder: encodes the image of a push; nil: the image is sent plain.
    ///   - awaitsLinkEnd: whether a run ends only when the last link has ended. Otherwise the run requests the end and does not wait.
    ///   - report: a function that receives each progress event, in order, with the time since the start of the run.
    ///   - gate: permits each stage that the session enters.
    public init(
        clock: C, limit: Duration? = nil, used: Duration = .zero, encoder: Encoder? = nil, awaitsLinkEnd: Bool = false,
        report: @escaping @Sendable (UpdateProgress, Duration) -> Void = { _, _ in },
        gate: @escaping StageGate = { _, _ in true }
    ) {
        self.clock = clock
        self.limit = limit
        self.used = used
        self.encoder = encoder
        self.awaitsLinkEnd = awaitsLinkEnd
        self.report = report
        self.gate = gate
    }

    /// Runs a session until the session ends.
    ///
    /// To stop a session early, send an element in `interrupts`. The session then closes the link and fails with `interrupted`. If the task
    /// is cancelled, this method throws `interrupted`, too, but the session receives no event.
    ///
    /// - Parameter interrupts: each element interrupts the session.
    /// - Throws: the error of the session; `timedOut` if the run reached `limit`; `interrupted` if the task was cancelled.
    public func run(
        _ session: some UpdateLogic, over transport: some Transport,
        interrupts: some AsyncSequence<Void, Never> & Sendable
    ) async throws(UpdateError) -> UpdateReport {
        let outcome = await withDiscardingTaskGroup { group in
            let mailbox = Mailbox(clock, wake: RunnerMessage.woken)
            group.addTask { for await _ in interrupts { mailbox.post.yield(.interrupted) } }
            var loop = RunnerLoop(
                session: session, transport: transport, mailbox: mailbox, limit: limit, used: used, encoder: encoder,
                awaitsLinkEnd: awaitsLinkEnd, report: report, gate: gate)
            let outcome = await loop.run(in: &group)
            group.cancelAll()
            return outcome
        }
        return try outcome.get()
    }
}

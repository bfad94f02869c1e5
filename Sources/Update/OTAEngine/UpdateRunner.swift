import DescriptorIO
public import OTAFirmware
public import OTAUpdate

/// Runs a session over a transport, in real or virtual time. The runner passes events to the session and performs the session's actions.
///
/// All events go through one mailbox to one loop. Only this loop has mutable state. Therefore the runner needs no locks.
public struct UpdateRunner<C: Clock>: Sendable where C.Duration == Duration {
    fileprivate let clock: C
    fileprivate let limit: Duration?
    fileprivate let used: Duration
    fileprivate let encoder: Encoder?
    fileprivate let awaitsLinkEnd: Bool
    fileprivate let report: @Sendable (UpdateProgress, Duration) -> Void
    fileprivate let gate: StageGate

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
            var loop = RunnerLoop(runner: self, session: session, transport: transport, mailbox: mailbox)
            let outcome = await loop.run(in: &group)
            group.cancelAll()
            return outcome
        }
        return try outcome.get()
    }
}

/// The loop of an ``UpdateRunner``. The loop receives messages, passes events to the session and performs the session's actions.
private struct RunnerLoop<Session: UpdateLogic, TransportType: Transport, C: Clock> where C.Duration == Duration {
    let runner: UpdateRunner<C>
    var session: Session
    let transport: TransportType
    var mailbox: Mailbox<RunnerMessage, C>

    private var link: (any Link)?
    /// The number of the current link (`RunnerMessage`). `leave()` increases it.
    private var connection = 0
    private var outcome: Result<UpdateReport, UpdateError>?

    init(runner: UpdateRunner<C>, session: Session, transport: TransportType, mailbox: Mailbox<RunnerMessage, C>) {
        self.runner = runner
        self.session = session
        self.transport = transport
        self.mailbox = mailbox
    }

    /// The time at which the run reaches its limit.
    private var end: Duration? { runner.limit.map { max($0 - runner.used, .zero) } }

    mutating func run(in group: inout DiscardingTaskGroup) async -> Result<UpdateReport, UpdateError> {
        dispatch(.started, &group)
        if let outcome { return outcome }
        for await message in mailbox.messages {
            switch message {
            case .interrupted: dispatch(.interrupted, &group)
            case .up(let link, connection):
                self.link = link
                dispatch(.linkUp(link.properties), &group)
            case .link(let event, connection): dispatch(.link(event), &group)
            case .down(let error, connection):
                leave()
                dispatch(.linkDown(error), &group)
            case .encoded(let request, let result): dispatch(.encoded(request, result), &group)
            case .woken:
                if let limit = runner.limit, let end, end <= mailbox.now {
                    dispatch(.interrupted, &group)
                    if case .failure(let error)? = outcome, error.code == .interrupted {
                        outcome = .failure(UpdateError(.timedOut, "not finished after \(limit.components.seconds) s"))
                    }
                } else if let deadline = session.deadline, deadline <= mailbox.now {
                    dispatch(.deadlinePassed, &group)
                } else {
                    arm(&group)
                }
            case .up(let link, _): link.close()
            case .link, .down: break
            }
            if let outcome {
                link?.close()
                if runner.awaitsLinkEnd, link != nil { await linkEnd() }
                return outcome
            }
        }
        return .failure(UpdateError(.interrupted, "the task was cancelled"))
    }

    private func linkEnd() async {
        for await message in mailbox.messages { if case .down(_, connection) = message { return } }
    }

    private mutating func dispatch(_ event: UpdateEvent, _ group: inout DiscardingTaskGroup) {
        for action in session.handle(event, at: mailbox.now) {
            switch action {
            case .connect(let target): connect(to: target, &group)
            case .find(let rejected): connect(rejecting: rejected, &group)
            case .acceptCandidate: link?.acceptCandidate()
            case .disconnect: disconnect()
            case .link(let command): link?.submit(command)
            case .encode(let request): encode(request, &group)
            case .report(let progress): runner.report(progress, mailbox.now)
            case .stage(let stage, let error):
                guard runner.gate(stage, error) else {
                    outcome = .failure(UpdateError(.interrupted, "other devices are updated first"))
                    return
                }
            case .finish(let report): outcome = .success(report)
            case .fail(let error): outcome = .failure(error)
            }
        }
        arm(&group)
    }

    /// Starts a child task that encodes the image and posts the result to the mailbox.
    private func encode(_ request: EncodingRequest, _ group: inout DiscardingTaskGroup) {
        let post = mailbox.post
        guard let encoder = runner.encoder else { return _ = post.yield(.encoded(request, nil)) }
        group.addTask { post.yield(.encoded(request, await encoder(request))) }
    }

    /// Starts a child task that opens a link and posts the events of the link to the mailbox.
    ///
    /// - Parameter rejected: the rejected candidates; nil: the link must not be to a candidate.
    private mutating func connect(
        to target: LinkTarget = .device, rejecting rejected: Set<String>? = nil, _ group: inout DiscardingTaskGroup
    ) {
        leave()
        let (connection, transport, post) = (connection, transport, mailbox.post)
        group.addTask {
            do throws(LinkError) {
                let opened = { (link: any Link) -> Void in _ = post.yield(.up(link, connection: connection)) }
                let receive: LinkSink = { post.yield(.link($0, connection: connection)) }
                let end =
                    if let rejected {
                        try await transport.runLink(rejecting: rejected, opened: opened, receive: receive)
                    } else {
                        try await transport.runLink(to: target, opened: opened, receive: receive)
                    }
                post.yield(.down(end, connection: connection))
            } catch {
                post.yield(.down(error, connection: connection))
            }
        }
    }

    /// Closes the link. The loop then receives exactly one `down` message.
    ///
    /// If the link is open, the link's child task posts this message. If the link is not open yet, this method posts the message, and the
    /// loop discards all later messages of the child task.
    private mutating func disconnect() {
        if let link { return link.close() }
        leave()
        mailbox.post.yield(.down(LinkError(.lost, "abandoned before it was open"), connection: connection))
    }

    /// Closes the link and increases the connection number. The later messages of this link have the old number, so the loop discards them.
    private mutating func leave() {
        link?.close()
        link = nil
        connection += 1
    }

    private mutating func arm(_ group: inout DiscardingTaskGroup) {
        mailbox.arm([session.deadline, end].compactMap { $0 }.min(), in: &group)
    }
}

/// A message from a child task to the runner's mailbox.
///
/// A message about a link contains the connection number of the link. With this number, the loop recognizes the messages of an earlier
/// link and discards them.
private enum RunnerMessage: Sendable {
    case interrupted
    case up(any Link, connection: Int)
    case link(LinkEvent, connection: Int)
    case down(LinkError, connection: Int)
    /// The encoder has performed the request; nil: the runner has no encoder.
    case encoded(EncodingRequest, Result<EncodedImage, EncodingFailure>?)
    case woken
}

import OTAFirmware
import OTAUpdate

/// The loop of an ``UpdateRunner``. The loop receives messages, passes events to the session and performs the session's actions.
struct RunnerLoop<Session: UpdateLogic, TransportType: Transport, C: Clock> where C.Duration == Duration {
    private var session: Session
    private let transport: TransportType
    private let clock: C
    private let limit: Duration?
    private let encoder: UpdateRunner<C>.Encoder?
    private let report: @Sendable (UpdateProgress, Duration) -> Void
    private let gate: StageGate
    private let post: AsyncStream<RunnerMessage<C.Instant>>.Continuation
    private let start: C.Instant

    private var link: (any Link)?
    /// The number of the current link (`RunnerMessage`). `leave()` increases it.
    private var connection = 0
    /// The instant of the earliest pending timer; nil if no timer is pending.
    private var armed: C.Instant?
    private var outcome: Result<UpdateReport, UpdateError>?

    /// A timer is late if it fires more than this time after its instant.
    private static var lateness: Duration { .milliseconds(250) }
    /// The time in which waiting events of the link arrive after the process was stopped.
    private static var receiptTime: Duration { .milliseconds(100) }

    init(
        session: Session, transport: TransportType, clock: C, limit: Duration?,
        encoder: UpdateRunner<C>.Encoder?, report: @escaping @Sendable (UpdateProgress, Duration) -> Void,
        gate: @escaping StageGate,
        post: AsyncStream<RunnerMessage<C.Instant>>.Continuation
    ) {
        self.session = session
        self.transport = transport
        self.clock = clock
        self.limit = limit
        self.encoder = encoder
        self.report = report
        self.gate = gate
        self.post = post
        start = clock.now
    }

    mutating func run(
        _ mailbox: AsyncStream<RunnerMessage<C.Instant>>, in group: inout DiscardingTaskGroup
    ) async -> Result<UpdateReport, UpdateError> {
        dispatch(.started, &group)
        if let outcome { return outcome }
        for await message in mailbox {
            switch message {
            case .interrupted: dispatch(.interrupted, &group)
            case .limitReached:
                dispatch(.interrupted, &group)
                if case .failure(let error)? = outcome, error.code == .interrupted, let limit {
                    outcome = .failure(UpdateError(.timedOut, "not finished after \(limit.components.seconds) s"))
                }
            case .up(let link, connection):
                self.link = link
                dispatch(.linkUp(link.properties), &group)
            case .link(let event, connection): dispatch(.link(event), &group)
            case .down(let error, connection):
                leave()
                dispatch(.linkDown(error), &group)
            case .encoded(let request, let result): dispatch(.encoded(request, result), &group)
            case .woken(let instant):
                if armed == instant { armed = nil }
                if let deadline = session.deadline, start.advanced(by: deadline) <= clock.now {
                    dispatch(.deadlinePassed, &group)
                } else {
                    arm(&group)
                }
            case .up(let link, _): link.close()
            case .link, .down: break
            }
            if let outcome {
                link?.close()
                return outcome
            }
        }
        return .failure(UpdateError(.interrupted, "the task was cancelled"))
    }

    private mutating func dispatch(_ event: UpdateEvent, _ group: inout DiscardingTaskGroup) {
        for action in session.handle(event, at: start.duration(to: clock.now)) {
            switch action {
            case .connect: connect(&group)
            case .find(let rejected): connect(rejecting: rejected, &group)
            case .acceptCandidate: link?.acceptCandidate()
            case .disconnect: disconnect()
            case .link(let command): link?.submit(command)
            case .encode(let request): encode(request, &group)
            case .report(let progress): report(progress, start.duration(to: clock.now))
            case .stage(let stage, let error):
                guard gate(stage, error) else {
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
        guard let encoder else { return _ = post.yield(.encoded(request, nil)) }
        let post = post
        group.addTask { post.yield(.encoded(request, await encoder(request))) }
    }

    /// Starts a child task that opens a link and posts the events of the link to the mailbox.
    ///
    /// - Parameter rejected: the rejected candidates; nil: the link must not be to a candidate.
    private mutating func connect(rejecting rejected: Set<String>? = nil, _ group: inout DiscardingTaskGroup) {
        leave()
        let (connection, transport, post) = (connection, transport, post)
        group.addTask {
            do throws(LinkError) {
                let opened = { (link: any Link) -> Void in _ = post.yield(.up(link, connection: connection)) }
                let receive: LinkSink = { post.yield(.link($0, connection: connection)) }
                let end =
                    if let rejected {
                        try await transport.runLink(rejecting: rejected, opened: opened, receive: receive)
                    } else {
                        try await transport.runLink(opened: opened, receive: receive)
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
        post.yield(.down(LinkError(.lost, "abandoned before it was open"), connection: connection))
    }

    /// Closes the link and increases the connection number. The later messages of this link have the old number, so the loop discards them.
    private mutating func leave() {
        link?.close()
        link = nil
        connection += 1
    }

    /// Starts a timer for the session's deadline. Does nothing if a pending timer fires at the deadline or earlier.
    ///
    /// If a timer fires before the deadline, the loop calls `arm` again.
    ///
    /// A timer that fires late shows that the process did not run for some time, for example because the computer slept. Events of the link
    /// may then wait for their receipt. So the timer waits a short time longer: the session must handle these events before its deadline.
    private mutating func arm(_ group: inout DiscardingTaskGroup) {
        guard let deadline = session.deadline else { return }
        let instant = start.advanced(by: deadline)
        if let armed, armed <= instant { return }
        armed = instant
        let (clock, post) = (clock, post)
        group.addTask {
            do {
                try await clock.sleep(until: instant, tolerance: nil)
                if instant.duration(to: clock.now) > Self.lateness { try await clock.sleep(for: Self.receiptTime) }
                post.yield(.woken(instant))
            } catch {
                // The task was cancelled because the run has ended.
            }
        }
    }
}

/// A message from a child task to the runner's mailbox.
///
/// A message about a link contains the connection number of the link. With this number, the loop recognizes the messages of an earlier
/// link and discards them.
enum RunnerMessage<Instant: Sendable>: Sendable {
    case interrupted
    /// The run has reached its time limit.
    case limitReached
    case up(any Link, connection: Int)
    case link(LinkEvent, connection: Int)
    case down(LinkError, connection: Int)
    /// The encoder has performed the request; nil: the runner has no encoder.
    case encoded(EncodingRequest, Result<EncodedImage, EncodingFailure>?)
    /// The timer for this instant has fired.
    case woken(Instant)
}

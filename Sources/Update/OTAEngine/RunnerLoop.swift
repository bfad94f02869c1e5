import DescriptorIO
import OTAFirmware
import OTAUpdate

/// The loop of an ``UpdateRunner``. The loop receives messages, passes events to the session and performs the session's actions.
struct RunnerLoop<Session: UpdateLogic, TransportType: Transport, C: Clock> where C.Duration == Duration {
    private var session: Session
    private let transport: TransportType
    private var mailbox: Mailbox<RunnerMessage, C>
    /// The limit of the run, and the part of it that is left.
    private let limit, remaining: Duration?
    private let encoder: UpdateRunner<C>.Encoder?
    private let awaitsLinkEnd: Bool
    private let report: @Sendable (UpdateProgress, Duration) -> Void
    private let gate: StageGate

    private var link: (any Link)?
    /// The number of the current link (`RunnerMessage`). `leave()` increases it.
    private var connection = 0
    private var outcome: Result<UpdateReport, UpdateError>?

    init(
        session: Session, transport: TransportType, mailbox: Mailbox<RunnerMessage, C>, limit: Duration?,
        used: Duration, encoder: UpdateRunner<C>.Encoder?, awaitsLinkEnd: Bool,
        report: @escaping @Sendable (UpdateProgress, Duration) -> Void, gate: @escaping StageGate
    ) {
        self.session = session
        self.transport = transport
        self.mailbox = mailbox
        self.limit = limit
        self.encoder = encoder
        self.awaitsLinkEnd = awaitsLinkEnd
        self.report = report
        self.gate = gate
        remaining = limit.map { max($0 - used, .zero) }
    }

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
                if let limit, let remaining, remaining <= mailbox.now {
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
                if awaitsLinkEnd, link != nil { await linkEnd() }
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
            case .report(let progress): report(progress, mailbox.now)
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
        let post = mailbox.post
        guard let encoder else { return _ = post.yield(.encoded(request, nil)) }
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
        mailbox.arm([session.deadline, remaining].compactMap { $0 }.min(), in: &group)
    }
}

/// A message from a child task to the runner's mailbox.
///
/// A message about a link contains the connection number of the link. With this number, the loop recognizes the messages of an earlier
/// link and discards them.
enum RunnerMessage: Sendable {
    case interrupted
    case up(any Link, connection: Int)
    case link(LinkEvent, connection: Int)
    case down(LinkError, connection: Int)
    /// The encoder has performed the request; nil: the runner has no encoder.
    case encoded(EncodingRequest, Result<EncodedImage, EncodingFailure>?)
    case woken
}

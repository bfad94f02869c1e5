import OTATransport
import OTAUpdate

/// The runner's loop: takes messages, tells the session, performs its actions.
struct RunnerLoop<Session: UpdateSession, TransportType: Transport, C: Clock> where C.Duration == Duration {
    private var session: Session
    private let transport: TransportType
    private let clock: C
    private let limit: Duration?
    private let report: @Sendable (UpdateProgress, Duration) -> Void
    private let post: AsyncStream<RunnerMessage<C.Instant>>.Continuation
    private let start: C.Instant

    private var link: (any Link)?
    private var connection = 0
    /// When the earliest sleeper wakes.
    private var armed: C.Instant?
    private var outcome: Result<UpdateReport, UpdateError>?

    init(
        session: Session, transport: TransportType, clock: C, limit: Duration?,
        report: @escaping @Sendable (UpdateProgress, Duration) -> Void,
        post: AsyncStream<RunnerMessage<C.Instant>>.Continuation
    ) {
        self.session = session
        self.transport = transport
        self.clock = clock
        self.limit = limit
        self.report = report
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
                    outcome = .failure(UpdateError(.timedOut, "not done after \(limit.components.seconds) s"))
                }
            case .up(let link, connection):
                self.link = link
                dispatch(.linkUp(link.properties), &group)
            case .link(let event, connection): dispatch(.link(event), &group)
            case .down(let error, connection):
                leave()
                dispatch(.linkDown(error), &group)
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
            case .disconnect: disconnect()
            case .link(let command): link?.submit(command)
            case .report(let progress): report(progress, start.duration(to: clock.now))
            case .finish(let report): outcome = .success(report)
            case .fail(let error): outcome = .failure(error)
            }
        }
        arm(&group)
    }

    /// One child task for each connection: it posts what the link tells.
    private mutating func connect(_ group: inout DiscardingTaskGroup) {
        leave()
        let (connection, transport, post) = (connection, transport, post)
        group.addTask {
            do throws(LinkError) {
                let loss = try await transport.withLink { link in
                    post.yield(.up(link, connection: connection))
                    for await event in link.events {
                        if case .lost(let error) = event { return error }
                        post.yield(.link(event, connection: connection))
                    }
                    return LinkError(.lost, "the link ended without a word")
                }
                post.yield(.down(loss, connection: connection))
            } catch {
                post.yield(.down(error, connection: connection))
            }
        }
    }

    /// A link that is up tells its end itself; one that is still to come is not waited for.
    private mutating func disconnect() {
        if let link { return link.close() }
        leave()
        post.yield(.down(LinkError(.lost, "given up before it was up"), connection: connection))
    }

    private mutating func leave() {
        link?.close()
        link = nil
        connection += 1
    }

    /// Sees to it that a sleeper is due no later than the session's deadline; one that wakes early looks again.
    private mutating func arm(_ group: inout DiscardingTaskGroup) {
        guard let deadline = session.deadline else { return }
        let instant = start.advanced(by: deadline)
        if let armed, armed <= instant { return }
        armed = instant
        let (clock, post) = (clock, post)
        group.addTask {
            do {
                try await clock.sleep(until: instant, tolerance: nil)
                post.yield(.woken(instant))
            } catch {
                // Cancelled: the run is over.
            }
        }
    }
}

/// A session that connects, then chooses the actual session from the properties of the first link.
///
/// Before the first link, all sessions behave in the same way: connect, wait, retry, fail. So any session can connect.
public struct ChoosingSession: UpdateSession {
    private var session: any UpdateSession
    private let choose: @Sendable (LinkProperties) throws(UpdateError) -> any UpdateSession
    private var hasChosen = false

    /// Creates the session.
    ///
    /// - Parameters:
    ///   - beginning: the session that connects.
    ///   - choose: creates the actual session, which has not handled any event yet. An error ends the update.
    public init(
        until beginning: any UpdateSession,
        choose: @escaping @Sendable (LinkProperties) throws(UpdateError) -> any UpdateSession
    ) {
        session = beginning
        self.choose = choose
    }

    public var deadline: Duration? { session.deadline }

    public mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        guard !hasChosen, case .linkUp(let properties) = event else { return session.handle(event, at: now) }
        hasChosen = true
        let chosen: any UpdateSession
        do throws(UpdateError) { chosen = try choose(properties) } catch {
            // Later events must not reach the session that connected.
            session = EndedSession()
            return [.disconnect, .fail(error)]
        }
        session = chosen
        let start = session.handle(.started, at: now)
        // The requested link is already open, and the progress event of its phase was already reported.
        guard start.contains(.connect) else { return start }
        return session.handle(event, at: now)
    }
}

/// A session that has ended: it ignores all events.
private struct EndedSession: UpdateSession {
    var deadline: Duration? { nil }

    mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] { [] }
}

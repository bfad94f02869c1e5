/// Connects, and has what the first link offers decide which session goes on; from then on it is that session.
///
/// Until a link is up every session does the same: connect, wait, try again, give up. So one of them does that here, and it
/// does not matter which.
public struct ChoosingSession: UpdateSession {
    private var session: any UpdateSession
    private let choose: @Sendable (LinkProperties) throws(UpdateError) -> any UpdateSession
    private var hasChosen = false

    /// - Parameters:
    ///   - beginning: connects.
    ///   - choose: makes the session that goes on, which has not been told anything yet; its error ends it all.
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
            // Whatever comes is not to wake the one that connected.
            session = EndedSession()
            return [.disconnect, .fail(error)]
        }
        session = chosen
        let start = session.handle(.started, at: now)
        // The link that it asks for is up already, and that it is asked for has been told.
        guard start.contains(.connect) else { return start }
        return session.handle(event, at: now)
    }
}

/// Has told its last.
private struct EndedSession: UpdateSession {
    var deadline: Duration? { nil }

    mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] { [] }
}

import OTAUpdate

/// What was seen of a session from outside. Under virtual time everything runs on one thread.
final class Tally: @unchecked Sendable {
    var events = 0
    var reports: [UpdateProgress] = []
    /// Image bytes handed to the link.
    var sentOffset = 0
}

/// A session whose process dies before it is told its event of a given number: it does nothing more, and says nothing.
struct MortalSession<Session: UpdateSession>: UpdateSession {
    private var session: Session
    private let tally: Tally
    private let death: Int?
    private let sentOffset: @Sendable (Session) -> Int

    init(
        _ session: Session, _ tally: Tally, diesAt death: Int?, sentOffset: @escaping @Sendable (Session) -> Int
    ) {
        self.session = session
        self.tally = tally
        self.death = death
        self.sentOffset = sentOffset
    }

    var deadline: Duration? { session.deadline }

    mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        tally.events += 1
        if tally.events == death { return [.fail(UpdateError(.interrupted, "killed"))] }
        defer { tally.sentOffset = sentOffset(session) }
        return session.handle(event, at: now)
    }
}

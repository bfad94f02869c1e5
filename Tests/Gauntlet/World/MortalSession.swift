import OTAProfile
package import OTAUpdate

/// What was seen of a session from outside. Under virtual time everything runs on one thread.
package final class Tally: @unchecked Sendable {
    package var events = 0
    package var reports: [UpdateProgress] = []
    /// Image bytes handed to the link.
    package var sentOffset = 0

    package init() {}
}

/// A session of a client that may die, or whose clock may jump; somebody looks on after each step.
package struct MortalSession: UpdateSession {
    private var session: ProfileSession
    private let client: Client
    private let tally: Tally
    private let observe: @Sendable (UpdateEvent, Duration, [UpdateAction]) -> Void
    private var ahead = Duration.zero

    init(
        _ session: ProfileSession, _ client: Client, _ tally: Tally,
        observe: @escaping @Sendable (UpdateEvent, Duration, [UpdateAction]) -> Void
    ) {
        self.session = session
        self.client = client
        self.tally = tally
        self.observe = observe
    }

    package var deadline: Duration? { session.deadline.map { max(.zero, $0 - ahead) } }

    package mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        tally.events += 1
        if tally.events == client.death { return [.fail(UpdateError(.interrupted, "killed"))] }
        if let jump = client.clockJump, jump.event == tally.events { ahead += jump.by }
        let actions = session.handle(event, at: now + ahead)
        tally.sentOffset = session.sentOffset
        observe(event, now, actions)
        return actions
    }
}

package import OTAUpdate

/// Counts a session's steps. Under virtual time everything runs on one thread.
package final class Tally: @unchecked Sendable {
    package var events = 0
    package var reports: [UpdateProgress] = []
    /// The image bytes that the session sent over the link.
    package var sentOffset = 0
    /// The bytes in Data values, without sequence numbers. It contains envelopes and bytes that were sent again.
    package var linkBytes = 0

    package init() {}
}

/// A session of a client that can be killed or whose clock can jump. An observer sees each step.
package struct MortalSession: UpdateLogic {
    private var session: UpdateSession
    private let death: Int?
    private let clockJump: ClockJump?
    private let tally: Tally
    private let observe: @Sendable (UpdateEvent, Duration, [UpdateAction]) -> Void
    private var ahead = Duration.zero

    /// - Parameters:
    ///   - death: the number of the event before which the client is killed, or nil.
    ///   - observe: called after each step with the event, the time, and the session's actions.
    package init(
        _ session: UpdateSession, _ tally: Tally, diesAt death: Int?, clockJump: ClockJump? = nil,
        observe: @escaping @Sendable (UpdateEvent, Duration, [UpdateAction]) -> Void = { _, _, _ in }
    ) {
        self.session = session
        self.tally = tally
        self.death = death
        self.clockJump = clockJump
        self.observe = observe
    }

    /// The limit of events. Every session that ends needs fewer.
    package static var mostEvents: Int { 200_000 }

    package var deadline: Duration? { session.deadline.map { max(.zero, $0 - ahead) } }

    package mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        tally.events += 1
        if tally.events == death || tally.events == Self.mostEvents {
            return [.fail(UpdateError(.interrupted, "killed"))]
        }
        if let clockJump, clockJump.event == tally.events { ahead += clockJump.by }
        let actions = session.handle(event, at: now + ahead)
        tally.sentOffset = session.conversation?.shared.ledger?.sentOffset ?? 0
        for case .link(.send(let values, _)) in actions { tally.linkBytes += values.reduce(0) { $0 + $1.count - 2 } }
        observe(event, now, actions)
        return actions
    }
}

import OTAUpdate

/// The other end of a session: its link, its device and its clock, made of the input.
protocol FuzzPeer {
    /// What the session does.
    ///
    /// - Returns: What was not as it must be.
    mutating func hear(_ action: UpdateAction) -> String?

    /// What happens next; time may pass before it.
    mutating func event(_ input: inout FuzzInput, at now: inout Duration, deadline: Duration?) -> UpdateEvent
}

extension FuzzPeer {
    /// Lets it talk with a session until the input is over: that ends once and says nothing afterwards, and until then
    /// always waits for something.
    mutating func run(_ session: consuming UpdateSession, _ input: inout FuzzInput) -> String? {
        var now = Duration.zero
        var hasEnded = false
        var event = UpdateEvent.started
        while true {
            let actions = session.handle(event, at: now)
            if hasEnded, !actions.isEmpty { return "it goes on behind its end" }
            for action in actions {
                if action.isLast {
                    if hasEnded { return "it ends twice" }
                    hasEnded = true
                }
                if let finding = hear(action) { return finding }
            }
            if hasEnded != (session.deadline == nil) {
                return hasEnded ? "it waits behind its end" : "it waits for ever"
            }
            guard !input.isEmpty else { return nil }
            event = self.event(&input, at: &now, deadline: session.deadline)
        }
    }
}

extension UpdateAction {
    fileprivate var isLast: Bool {
        switch self {
        case .finish, .fail: true
        case .connect, .disconnect, .link, .report: false
        }
    }
}

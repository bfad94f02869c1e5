package import OTAUpdate

/// A session that asks for permission before its first change on the device.
///
/// Before its first change, a session reports a phase that comes after `preflight`. At this report, `AdmittedSession` asks for the
/// permission. Until then, the device has received only requests for its status. If the permission is refused, the session closes the link
/// and fails with `UpdateError.Code.interrupted`.
package struct AdmittedSession<Session: UpdateLogic>: UpdateLogic {
    private enum State {
        case unasked, admitted, refused
    }

    private var session: Session
    private let admits: @Sendable () -> Bool
    private var state = State.unasked

    package init(_ session: Session, _ admits: @escaping @Sendable () -> Bool) {
        self.session = session
        self.admits = admits
    }

    package var deadline: Duration? { state == .refused ? nil : session.deadline }

    package mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        if state == .refused { return [] }
        let actions = session.handle(event, at: now)
        guard state == .unasked, let change = actions.firstIndex(where: \.beginsChange) else { return actions }
        state = admits() ? .admitted : .refused
        guard state == .refused else { return actions }
        return actions[..<change] + [.disconnect, .fail(UpdateError(.interrupted, "other devices are updated first"))]
    }
}

extension UpdateAction {
    /// True for the report of a phase in which the session changes the device.
    fileprivate var beginsChange: Bool {
        switch self {
        case .report(.phase(.connect)), .report(.phase(.preflight)): false
        case .report(.phase): true
        default: false
        }
    }
}

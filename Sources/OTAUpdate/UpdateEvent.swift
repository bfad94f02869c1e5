/// What can happen to a session.
public enum UpdateEvent: Sendable, Equatable {
    /// The first event, once.
    case started
    case linkUp(LinkProperties)
    case link(LinkEvent)
    /// The link is gone, or the one that was asked for did not come.
    case linkDown(LinkError)
    /// The session's own deadline has come.
    case deadlinePassed
    /// A person or a supervisor wants it to stop: last actions, then `fail(interrupted)`.
    case interrupted
}

/// An event for a session.
public enum UpdateEvent: Sendable, Equatable {
    /// The session starts. Always the first event, exactly once.
    case started
    case linkUp(LinkProperties)
    case link(LinkEvent)
    /// The link ended, or could not be opened.
    case linkDown(LinkError)
    /// The session's deadline has passed.
    case deadlinePassed
    /// A person or a supervisor stops the session. It requests its last actions, then `fail` with `interrupted`.
    case interrupted
}

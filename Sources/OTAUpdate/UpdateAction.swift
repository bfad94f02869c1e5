/// An action that a session requests from its runner. Actions are performed in order.
public enum UpdateAction: Sendable, Equatable {
    /// Opens a link. The answer is `linkUp` or `linkDown`. A previous link is closed first.
    case connect
    /// Closes the link. The answer is `linkDown`.
    case disconnect
    /// A command for the open link; discarded if there is none.
    case link(LinkCommand)
    case report(UpdateProgress)
    /// The session has succeeded. The last action.
    case finish(UpdateReport)
    /// The session has failed. The last action.
    case fail(UpdateError)
}

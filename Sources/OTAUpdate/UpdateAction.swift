/// What a session wants done, in order.
public enum UpdateAction: Sendable, Equatable {
    /// Answered by `linkUp` or `linkDown`. The link before it is gone by then.
    case connect
    /// Answered by `linkDown`.
    case disconnect
    /// Meant for the link that is up; dropped where there is none.
    case link(LinkCommand)
    case report(UpdateProgress)
    /// The session has done what it was made for. The last action.
    case finish(UpdateReport)
    /// The session has given up. The last action.
    case fail(UpdateError)
}

/// What a link tells a session.
public enum LinkEvent: Sendable, Equatable {
    /// The answer to a subscribe.
    case subscribed(Channel)
    /// The answer to a read.
    case value([UInt8], Channel)
    /// The answer to a write.
    case written(Channel)
    /// The answer to any of the three, in place of the good one.
    case refused(LinkError, Channel)
    case notified([UInt8], Channel)
    /// The last event of a link.
    case lost(LinkError)
}

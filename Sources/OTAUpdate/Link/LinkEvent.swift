/// An event of a link.
public enum LinkEvent: Sendable, Equatable {
    /// The successful answer to a subscribe.
    case subscribed(Channel)
    /// The successful answer to a read.
    case value([UInt8], Channel)
    /// The successful answer to a write.
    case written(Channel)
    /// The answer to a failed subscribe, read or write.
    case refused(LinkError, Channel)
    case notified([UInt8], Channel)
    /// The last event of a link.
    case lost(LinkError)
}

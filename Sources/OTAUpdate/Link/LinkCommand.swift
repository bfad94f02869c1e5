/// A command for a link. Commands are performed in the order of submission.
public enum LinkCommand: Sendable, Equatable {
    case subscribe(Channel)
    case read(Channel)
    /// Writes with response. The answer means that all earlier sends have also arrived.
    case write([UInt8], Channel)
    /// Writes without response, in order. There is no answer.
    case send([[UInt8]], Channel)
}

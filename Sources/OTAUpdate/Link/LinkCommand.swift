/// What a session asks of a link. Commands are carried out in the order in which they were submitted.
public enum LinkCommand: Sendable, Equatable {
    case subscribe(Channel)
    case read(Channel)
    /// With response: answered, and a fence behind every earlier send.
    case write([UInt8], Channel)
    /// Without response: in order, not answered.
    case send([[UInt8]], Channel)
}

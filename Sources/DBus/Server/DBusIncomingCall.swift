/// A call of a method exported here.
public struct DBusIncomingCall: Sendable, Hashable {
    /// The caller's unique name.
    public var sender: String
    public var path: DBusObjectPath
    public var interface: String
    public var member: String
    /// Of the types the method takes.
    public var arguments: [DBusValue]
    /// False when the caller asked for no answer; what the handler returns or throws is dropped then.
    public var wantsReply: Bool
}

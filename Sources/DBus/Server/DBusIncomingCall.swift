/// An incoming call of an exported method.
public struct DBusIncomingCall: Sendable, Hashable {
    /// The caller's unique name.
    public var sender: String
    public var path: DBusObjectPath
    public var interface: String
    public var member: String
    /// The arguments. Their types match the method's inputs.
    public var arguments: [DBusValue]
    /// Whether the caller expects a reply. If false, the handler's result or error is dropped.
    public var wantsReply: Bool
}

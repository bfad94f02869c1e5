/// A received signal.
public struct DBusSignal: Sendable, Hashable {
    /// The unique name of the connection that sent it, or the name of the bus.
    public var sender: String
    public var path: DBusObjectPath
    public var interface: String
    public var member: String
    public var arguments: [DBusValue]
}

/// The signal `NameOwnerChanged` of the bus.
struct NameOwnerChange {
    var name: String
    var newOwner: String?

    init?(_ signal: DBusSignal) {
        guard signal.sender == Bus.name, signal.interface == Bus.name, signal.member == "NameOwnerChanged",
            signal.arguments.count == 3, let name = signal.arguments[0].string, let new = signal.arguments[2].string
        else { return nil }
        self.name = name
        newOwner = new.isEmpty ? nil : new
    }
}

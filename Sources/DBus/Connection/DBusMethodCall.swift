/// An outgoing method call.
public struct DBusMethodCall: Sendable, Hashable {
    public var destination: String
    public var path: DBusObjectPath
    public var interface: String
    public var member: String
    public var arguments: [DBusValue]

    public init(
        _ destination: String, _ path: DBusObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue] = []
    ) {
        self.destination = destination
        self.path = path
        self.interface = interface
        self.member = member
        self.arguments = arguments
    }

    /// Creates a call of the bus itself.
    static func bus(_ member: String, _ arguments: [DBusValue] = []) -> DBusMethodCall {
        DBusMethodCall(Bus.name, Bus.path, Bus.name, member, arguments)
    }
}

/// The message bus of the D-Bus specification.
enum Bus {
    static let name = "org.freedesktop.DBus"
    static let path: DBusObjectPath = "/org/freedesktop/DBus"
}

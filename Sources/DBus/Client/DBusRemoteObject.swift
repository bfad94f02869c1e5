/// An object of another program. The bus name of the program and the path identify the object. The object does not have to
/// exist.
public struct DBusRemoteObject: Sendable {
    public let connection: DBusConnection
    public let destination: String
    public let path: DBusObjectPath

    public init(_ connection: DBusConnection, _ destination: String, _ path: DBusObjectPath) {
        self.connection = connection
        self.destination = destination
        self.path = path
    }

    /// Calls a method of the object. All methods of this type throw the errors of `DBusConnection.call`.
    @discardableResult
    public func call(
        _ interface: String, _ member: String, _ arguments: [DBusValue] = [], timeout: Duration? = .seconds(25)
    ) async throws(DBusError) -> [DBusValue] {
        try await connection.call(destination, path, interface, member, arguments, timeout: timeout)
    }

    /// Reads a property. Returns the value without the variant around it.
    public func property(_ interface: String, _ name: String) async throws(DBusError) -> DBusValue {
        let reply = try await call(Standard.properties, "Get", [.string(interface), .string(name)])
        guard let value = reply.first else { throw DBusError(.unexpectedValue, "Get returned no value") }
        return value.unwrapped
    }

    /// Reads all readable properties. Returns the values without the variants around them.
    public func properties(_ interface: String) async throws(DBusError) -> [String: DBusValue] {
        try await call(Standard.properties, "GetAll", [.string(interface)]).require(0, \.properties)
    }

    public func setProperty(_ interface: String, _ name: String, _ value: DBusValue) async throws(DBusError) {
        try await call(Standard.properties, "Set", [.string(interface), .string(name), value.inVariant])
    }

    /// Subscribes to the property changes of one interface.
    public func propertyChanges(_ interface: String) async throws(DBusError) -> DBusStream<DBusPropertiesChange> {
        let match = DBusMatch(
            sender: destination, path: path, interface: Standard.properties, member: "PropertiesChanged",
            firstArgument: interface)
        return try await connection.stream(matching: match, DBusPropertiesChange.init)
    }
}

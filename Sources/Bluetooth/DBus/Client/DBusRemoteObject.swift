/// An object of another program on the bus. The bus name of the program and the path of the object identify the object.
/// The initializer sends no message and does not check that the object exists.
public struct DBusRemoteObject: Sendable {
    public let connection: DBusConnection
    public let destination: String
    public let path: DBusObjectPath

    public init(_ connection: DBusConnection, _ destination: String, _ path: DBusObjectPath) {
        self.connection = connection
        self.destination = destination
        self.path = path
    }

    /// Calls a method of the object and returns the values of the reply. All methods of `DBusRemoteObject` throw the
    /// errors of `DBusConnection.call`.
    @discardableResult
    public func call(
        _ interface: String, _ member: String, _ arguments: [DBusValue] = [], timeout: Duration? = .seconds(25)
    ) async throws(DBusError) -> [DBusValue] {
        try await connection.call(destination, path, interface, member, arguments, timeout: timeout)
    }

    /// Reads a property and returns its value, without the variant around the value.
    public func property(_ interface: String, _ name: String) async throws(DBusError) -> DBusValue {
        let reply = try await call(Standard.properties, "Get", [.string(interface), .string(name)])
        guard let value = reply.first else { throw DBusError(.unexpectedValue, "Get returned no value") }
        return value.unwrapped
    }

    /// Reads all readable properties of one interface. Returns the values by property name, without the variants around
    /// the values.
    public func properties(_ interface: String) async throws(DBusError) -> [String: DBusValue] {
        try await call(Standard.properties, "GetAll", [.string(interface)]).require(0, \.properties)
    }

    public func setProperty(_ interface: String, _ name: String, _ value: DBusValue) async throws(DBusError) {
        try await call(Standard.properties, "Set", [.string(interface), .string(name), value.inVariant])
    }

    /// Returns a stream of the property changes of one interface of the object.
    public func propertyChanges(_ interface: String) async throws(DBusError) -> DBusStream<DBusPropertiesChange> {
        let match = DBusMatch(
            sender: destination, path: path, interface: Standard.properties, member: "PropertiesChanged",
            firstArgument: interface)
        return try await connection.stream(matching: match, DBusPropertiesChange.init)
    }
}

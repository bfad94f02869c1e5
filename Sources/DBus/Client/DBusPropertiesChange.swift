/// The content of a `PropertiesChanged` signal.
public struct DBusPropertiesChange: Sendable, Hashable {
    public var path: DBusObjectPath
    public var interface: String
    /// The new values, without variants around them.
    public var changed: [String: DBusValue]
    /// The names of changed properties whose values were not sent.
    public var invalidated: [String]

    static let match = DBusMatch(interface: Standard.properties, member: "PropertiesChanged")

    package init(path: DBusObjectPath, interface: String, changed: [String: DBusValue], invalidated: [String]) {
        self.path = path
        self.interface = interface
        self.changed = changed
        self.invalidated = invalidated
    }

    init?(_ signal: DBusSignal) {
        guard Self.match.fits(signal, ownerOf: { _ in nil }), signal.arguments.count == 3,
            let interface = signal.arguments[0].string, let changed = signal.arguments[1].properties,
            let invalidated = signal.arguments[2].strings
        else { return nil }
        path = signal.path
        self.interface = interface
        self.changed = changed
        self.invalidated = invalidated
    }
}

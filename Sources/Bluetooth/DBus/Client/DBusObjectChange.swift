/// A change of the objects of a service. ``DBusConnection/managedObjects(of:at:)`` returns a stream of these changes.
public enum DBusObjectChange: Sendable, Hashable {
    /// The property values of an object, by interface name and property name. The values have no variants around them.
    public typealias Interfaces = [String: [String: DBusValue]]

    /// All objects of the service. A snapshot replaces all objects that the stream has reported before. The stream
    /// sends a snapshot at its start if the service is running, and after each start of the service.
    case snapshot([DBusObjectPath: Interfaces])
    /// The service has created the object at this path, or has added these interfaces to the object.
    case added(DBusObjectPath, Interfaces)
    /// The service has removed the interfaces with these names from the object at this path. If the object has no
    /// interfaces left, the object no longer exists.
    case removed(DBusObjectPath, [String])
    case changed(DBusPropertiesChange)
    /// The service has stopped, another program has replaced the service, or the service is not running at the start of the
    /// stream. The objects that the stream has reported before no longer exist.
    case serviceLost

    /// Creates a change from the signal `InterfacesAdded`, `InterfacesRemoved` or `PropertiesChanged`. Returns nil for
    /// any other signal and for a malformed signal.
    init?(_ signal: DBusSignal) {
        if let change = DBusPropertiesChange(signal) {
            self = .changed(change)
            return
        }
        guard signal.interface == Standard.objectManager, signal.arguments.count == 2,
            let path = signal.arguments[0].objectPath
        else { return nil }
        if signal.member == "InterfacesAdded", let interfaces = Self.interfaces(signal.arguments[1]) {
            self = .added(path, interfaces)
        } else if signal.member == "InterfacesRemoved", let names = signal.arguments[1].strings {
            self = .removed(path, names)
        } else {
            return nil
        }
    }

    /// Creates a snapshot from the reply to `GetManagedObjects`. Throws `unexpectedValue` if the reply is malformed.
    init(snapshot reply: [DBusValue]) throws(DBusError) {
        var objects: [DBusObjectPath: Interfaces] = [:]
        for (key, value) in try reply.require(0, \.dictionary) {
            let path = try key.require(\.objectPath)
            guard let interfaces = Self.interfaces(value) else {
                throw DBusError(.unexpectedValue, "\(path) has malformed properties")
            }
            objects[path] = interfaces
        }
        self = .snapshot(objects)
    }

    private static func interfaces(_ value: DBusValue) -> Interfaces? {
        guard let entries = value.dictionary else { return nil }
        var interfaces: Interfaces = [:]
        for (key, value) in entries {
            guard let name = key.string, let properties = value.properties else { return nil }
            interfaces[name] = properties
        }
        return interfaces
    }
}

/// The content of a `PropertiesChanged` signal: the changed properties of one interface of an object.
public struct DBusPropertiesChange: Sendable, Hashable {
    public var path: DBusObjectPath
    public var interface: String
    /// The new values by property name, without variants around the values.
    public var changed: [String: DBusValue]
    /// The names of the changed properties whose new values are not in the signal.
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

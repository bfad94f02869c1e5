/// A change of the objects of a service that has an ObjectManager.
public enum DBusObjectChange: Sendable, Hashable {
    /// The interfaces of an object, each with its properties. The values have no variants around them.
    public typealias Interfaces = [String: [String: DBusValue]]

    /// All objects of the service. This element replaces all earlier objects. The stream sends it at its start if the service
    /// is running, and after each start of the service.
    case snapshot([DBusObjectPath: Interfaces])
    /// A new object, or new interfaces of an object.
    case added(DBusObjectPath, Interfaces)
    /// The names of interfaces that an object no longer has. An object without interfaces no longer exists.
    case removed(DBusObjectPath, [String])
    case changed(DBusPropertiesChange)
    /// The service's name has no owner. All objects of the service are gone.
    case serviceLost

    /// Reads `InterfacesAdded`, `InterfacesRemoved` and `PropertiesChanged`. Returns nil for other signals and for malformed
    /// signals.
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

    /// Reads the reply of `GetManagedObjects`. Throws `unexpectedValue`.
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

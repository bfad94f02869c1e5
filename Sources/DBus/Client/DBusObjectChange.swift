/// What becomes of the objects of a service that has an ObjectManager.
public enum DBusObjectChange: Sendable, Hashable {
    /// An object's interfaces, each with its properties, which have no variants around them.
    public typealias Interfaces = [String: [String: DBusValue]]

    /// All there are: first of all, and each time the service came back. Forget what was before.
    case snapshot([DBusObjectPath: Interfaces])
    /// An object, or more interfaces of one.
    case added(DBusObjectPath, Interfaces)
    /// The names of the interfaces an object has no longer; without any it is gone.
    case removed(DBusObjectPath, [String])
    case changed(DBusPropertiesChange)
    /// Nobody owns the service's name, and all its objects are gone.
    case serviceLost

    /// Of `InterfacesAdded`, `InterfacesRemoved` and `PropertiesChanged`.
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

    /// Of what `GetManagedObjects` returned. Throws `unexpectedValue`.
    init(snapshot reply: [DBusValue]) throws(DBusError) {
        var objects: [DBusObjectPath: Interfaces] = [:]
        for (key, value) in try reply.require(0, \.dictionary) {
            let path = try key.require(\.objectPath)
            guard let interfaces = Self.interfaces(value) else {
                throw DBusError(.unexpectedValue, "\(path) has no properties as they should be")
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

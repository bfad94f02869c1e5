/// The exported objects of a connection, by path.
struct ObjectTree {
    struct Object {
        var interfaces: [DBusInterface]
        /// The property values, by interface and property name.
        var values: [String: [String: DBusValue]]
        /// Whether the object has an ObjectManager for all objects below it.
        var managesObjects: Bool
        /// The well-known name whose owner may call the object. Nil: every program may call it.
        var caller: String?

        func interface(_ name: String) throws(DBusError) -> DBusInterface {
            guard let interface = interfaces.first(where: { $0.name == name }) else {
                throw .remote(DBusError.Name.unknownInterface, "the object has no interface \(name)")
            }
            return interface
        }

        /// The property values of all interfaces.
        var properties: DBusValue {
            let entries = values.map { (DBusValue.string($0), DBusValue.properties($1)) }
            return .dictionary(key: .string, value: .properties, Dictionary(entries) { _, last in last })
        }
    }

    private(set) var objects: [DBusObjectPath: Object] = [:]

    /// Adds an object. Throws `invalidArguments`.
    mutating func add(
        _ path: DBusObjectPath, _ interfaces: [DBusInterface], managesObjects: Bool, caller: String? = nil
    ) throws(DBusError) {
        try Names.check(path: path)
        guard objects[path] == nil else { throw DBusError(.invalidArguments, "\(path) is already exported") }
        for interface in interfaces { try interface.check() }
        guard Set(interfaces.map(\.name)).count == interfaces.count else {
            throw DBusError(.invalidArguments, "\(path) has one interface twice")
        }
        let values = interfaces.map { interface in
            (interface.name, Dictionary(uniqueKeysWithValues: interface.properties.map { ($0.name, $0.value) }))
        }
        objects[path] = Object(
            interfaces: interfaces, values: Dictionary(uniqueKeysWithValues: values), managesObjects: managesObjects,
            caller: caller)
    }

    /// Removes `path` and all objects below it. The result lists the deepest paths first.
    mutating func remove(_ path: DBusObjectPath) -> [(DBusObjectPath, Object)] {
        objects.keys.filter { $0 == path || $0.isDescendant(of: path) }.sorted(by: >).compactMap { path in
            objects.removeValue(forKey: path).map { (path, $0) }
        }
    }

    mutating func removeAll() { objects = [:] }

    func object(_ path: DBusObjectPath) throws(DBusError) -> Object {
        guard let object = objects[path] else {
            throw .remote(DBusError.Name.unknownObject, "object \(path) does not exist")
        }
        return object
    }

    /// The objects above `path` that have an ObjectManager.
    func managers(of path: DBusObjectPath) -> [DBusObjectPath] {
        objects.filter { $0.value.managesObjects && path.isDescendant(of: $0.key) }.keys.sorted()
    }

    /// The objects below `path`.
    func descendants(of path: DBusObjectPath) -> [DBusObjectPath: Object] {
        objects.filter { $0.key.isDescendant(of: path) }
    }

    /// The next path elements below `path`. An element counts even if only objects below it exist.
    func children(of path: DBusObjectPath) -> [String] {
        let skipped = path == .root ? 1 : path.text.utf8.count + 1
        let elements = descendants(of: path).keys.compactMap { descendant in
            descendant.text.utf8.dropFirst(skipped).split(separator: UInt8(ascii: "/")).first.flatMap { String($0) }
        }
        return Set(elements).sorted()
    }

    /// Sets new values of properties. Throws `invalidArguments`, and `remote` if a property does not exist.
    mutating func update(
        _ path: DBusObjectPath, _ interface: String, _ values: [String: DBusValue]
    ) throws(DBusError) {
        let declaration = try object(path).interface(interface)
        for (name, value) in values {
            let property = try declaration.property(name)
            guard property.value.type == value.type else {
                throw DBusError(
                    .invalidArguments, "\(name): expected type \(property.value.type.text), got \(value.type.text)")
            }
            guard property.announcement != .constant else {
                throw DBusError(.invalidArguments, "\(name) is declared as constant")
            }
        }
        try ValueChecker.check([.properties(values)])
        objects[path]?.values[interface]?.merge(values) { _, new in new }
    }
}

extension DBusInterface {
    func property(_ name: String) throws(DBusError) -> DBusProperty {
        guard let property = properties.first(where: { $0.name == name }) else {
            throw .remote(DBusError.Name.unknownProperty, "\(self.name) has no property \(name)")
        }
        return property
    }
}

/// The exported objects of a connection, by path.
struct ExportedObjects {
    struct Object {
        var interfaces: [DBusInterface]
        /// The property values, by interface name and property name.
        var values: [String: [String: DBusValue]]
        /// Whether the object has the standard interface ObjectManager, which lists all objects below this object.
        var managesObjects: Bool
        /// The well-known name whose owner may call the object; nil if every program may call the object.
        var caller: String?

        func interface(_ name: String) throws(DBusError) -> DBusInterface {
            guard let interface = interfaces.first(where: { $0.name == name }) else {
                throw .remote(DBusError.Name.unknownInterface, "the object has no interface \(name)")
            }
            return interface
        }

        /// The property values of all interfaces, with the type `a{sa{sv}}`.
        var properties: DBusValue {
            let entries = values.map { (DBusValue.string($0), DBusValue.properties($1)) }
            return .dictionary(key: .string, value: .properties, Dictionary(entries) { _, last in last })
        }
    }

    private(set) var objects: [DBusObjectPath: Object] = [:]

    /// Adds an object. Throws `invalidArguments` if a name, a path or a value is malformed, or if `path` is already in use.
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

    /// Removes the object at `path` and all objects below `path`. Returns the removed objects. In the result, each object comes after
    /// all objects below it.
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

    /// Returns the paths of all objects above `path` that have an ObjectManager.
    func managers(of path: DBusObjectPath) -> [DBusObjectPath] {
        objects.filter { $0.value.managesObjects && path.isDescendant(of: $0.key) }.keys.sorted()
    }

    /// Returns the objects below `path`.
    private func descendants(of path: DBusObjectPath) -> [DBusObjectPath: Object] {
        objects.filter { $0.key.isDescendant(of: path) }
    }

    /// Returns the names of the path elements directly below `path`, including elements without an object. If the only object
    /// below `/a` is `/a/b/c`, the result for `/a` is `b`.
    private func children(of path: DBusObjectPath) -> [String] {
        let skipped = path == .root ? 1 : path.text.utf8.count + 1
        let elements = descendants(of: path).keys.compactMap { descendant in
            descendant.text.utf8.dropFirst(skipped).split(separator: UInt8(ascii: "/")).first.flatMap { String($0) }
        }
        return Set(elements).sorted()
    }

    /// Sets new values of properties. Throws `invalidArguments` if a value has the wrong type or a property is constant.
    /// Throws `remote` if the object, the interface or a property does not exist.
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

/// The action that the connection performs for an incoming call.
enum Route {
    case answer([DBusValue])
    case handle(DBusMethod)
    case set(DBusProperty, to: DBusValue, in: String)
}

extension ExportedObjects {
    /// Returns the action for a call. If the call is not valid, this method throws the error that the connection sends to
    /// the caller.
    func route(_ call: DBusIncomingCall) throws(DBusError) -> Route {
        switch call.interface {
        case Standard.peer: return .answer(try peer(call))
        case Standard.introspectable: return .answer(try introspectable(call))
        case Standard.properties: return try properties(call)
        case Standard.objectManager: return .answer(try objectManager(call))
        default: return .handle(try method(call))
        }
    }

    /// Returns the call with the name of its interface. D-Bus permits calls without an interface (specification, "Message Types"). For
    /// such a call, this method searches the interfaces of the object for the called method.
    func completed(_ call: DBusIncomingCall) -> DBusIncomingCall {
        guard call.interface.isEmpty else { return call }
        var call = call
        let own = (try? object(call.path))?.interfaces.first { $0.methods.contains { $0.name == call.member } }
        call.interface = own?.name ?? Standard.interface(ofMethod: call.member) ?? ""
        return call
    }

    private func method(_ call: DBusIncomingCall) throws(DBusError) -> DBusMethod {
        let object = try object(call.path)
        guard !call.interface.isEmpty else { throw .unknownMethod(call) }
        guard let method = try object.interface(call.interface).methods.first(where: { $0.name == call.member }) else {
            throw .unknownMethod(call)
        }
        try call.expect(method.inputs.map(\.type))
        return method
    }

    private func peer(_ call: DBusIncomingCall) throws(DBusError) -> [DBusValue] {
        try call.expect([])
        switch call.member {
        case "Ping": return []
        case "GetMachineId": return [.string(try Machine.id())]
        default: throw .unknownMethod(call)
        }
    }

    private func introspectable(_ call: DBusIncomingCall) throws(DBusError) -> [DBusValue] {
        guard call.member == "Introspect" else { throw .unknownMethod(call) }
        try call.expect([])
        let children = children(of: call.path)
        // To find the objects, clients introspect all paths from the root downwards. Therefore introspection must also work for a path
        // without an object, if objects below this path exist.
        let object = objects[call.path]
        if object == nil, children.isEmpty, call.path != .root { _ = try self.object(call.path) }
        return [.string(Introspection.describe(object, children: children))]
    }

    private func properties(_ call: DBusIncomingCall) throws(DBusError) -> Route {
        let object = try object(call.path)
        switch call.member {
        case "Get":
            try call.expect([.string, .string])
            let (interface, name) = (try call.arguments.require(0, \.string), try call.arguments.require(1, \.string))
            let property = try object.interface(interface).property(name)
            return .answer([(object.values[interface]?[name] ?? property.value).inVariant])
        case "GetAll":
            try call.expect([.string])
            let interface = try call.arguments.require(0, \.string)
            // The standard interfaces have no properties.
            let values = Standard.all.contains(interface) ? nil : object.values[try object.interface(interface).name]
            return .answer([.properties(values ?? [:])])
        case "Set":
            try call.expect([.string, .string, .variant])
            let (interface, name) = (try call.arguments.require(0, \.string), try call.arguments.require(1, \.string))
            guard case .variant(let value) = call.arguments[2] else { throw .unknownMethod(call) }
            let property = try object.interface(interface).property(name)
            guard property.setter != nil else {
                throw .remote(DBusError.Name.propertyReadOnly, "property \(name) is read-only")
            }
            guard value.type == property.value.type else { throw .wrongType(property.value.type.text, value.type.text) }
            return .set(property, to: value, in: interface)
        default:
            throw .unknownMethod(call)
        }
    }

    private func objectManager(_ call: DBusIncomingCall) throws(DBusError) -> [DBusValue] {
        guard try object(call.path).managesObjects else {
            throw .remote(DBusError.Name.unknownInterface, "\(call.path) has no \(Standard.objectManager)")
        }
        guard call.member == "GetManagedObjects" else { throw .unknownMethod(call) }
        try call.expect([])
        let interfaces = DBusType.dictionary(key: .string, value: .properties)
        let entries = descendants(of: call.path).map { (DBusValue.objectPath($0), $1.properties) }
        return [.dictionary(key: .objectPath, value: interfaces, Dictionary(entries) { _, last in last })]
    }
}

extension DBusIncomingCall {
    fileprivate func expect(_ types: [DBusType]) throws(DBusError) {
        let given = arguments.map(\.type)
        guard given == types else { throw .wrongType(types.map(\.text).joined(), given.map(\.text).joined()) }
    }
}

extension DBusError {
    fileprivate static func unknownMethod(_ call: DBusIncomingCall) -> DBusError {
        .remote(Name.unknownMethod, "\(call.path) has no method \(call.member) in \"\(call.interface)\"")
    }

    fileprivate static func wrongType(_ expected: String, _ given: String) -> DBusError {
        .remote(Name.invalidArguments, "expected arguments of type \"\(expected)\", got \"\(given)\"")
    }
}

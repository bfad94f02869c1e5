/// The action for an incoming call.
enum Route {
    case answer([DBusValue])
    case handle(DBusMethod)
    case set(DBusProperty, to: DBusValue, in: String)
}

extension ObjectTree {
    /// Returns the action for a call. Throws the error for the caller if the call is refused.
    func route(_ call: DBusIncomingCall) throws(DBusError) -> Route {
        switch call.interface {
        case Standard.peer: return .answer(try peer(call))
        case Standard.introspectable: return .answer(try introspectable(call))
        case Standard.properties: return try properties(call)
        case Standard.objectManager: return .answer(try objectManager(call))
        default: return .handle(try method(call))
        }
    }

    /// Adds the interface to a call that omits it (specification, "Message Types").
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
        // A path without an object may have objects below it. Clients find these from the root, so introspection must work
        // here.
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

/// An interface of an exported object.
public struct DBusInterface: Sendable {
    /// A signal, as introspection shows it. `DBusConnection.emit` can also send signals that are not declared.
    public struct Signal: Sendable, Hashable {
        public var name: String
        public var arguments: [DBusArgument]

        public init(_ name: String, _ arguments: [DBusArgument] = []) {
            self.name = name
            self.arguments = arguments
        }
    }

    public let name: String
    public let methods: [DBusMethod]
    public let properties: [DBusProperty]
    public let signals: [Signal]

    public init(
        _ name: String, methods: [DBusMethod] = [], properties: [DBusProperty] = [], signals: [Signal] = []
    ) {
        self.name = name
        self.methods = methods
        self.properties = properties
        self.signals = signals
    }

    /// Checks the names. Throws `invalidArguments`.
    func check() throws(DBusError) {
        try Names.check(interface: name)
        guard !Standard.all.contains(name) else {
            throw DBusError(.invalidArguments, "\(name) must not be exported: every object already has it")
        }
        for method in methods {
            try Names.check(member: method.name)
            try check(method.inputs)
            try check(method.outputs)
        }
        for signal in signals {
            try Names.check(member: signal.name)
            try check(signal.arguments)
        }
        for property in properties {
            try Names.check(member: property.name)
            try ValueChecker.check([property.value.inVariant])
        }
        for names in [methods.map(\.name), properties.map(\.name), signals.map(\.name)]
        where Set(names).count != names.count {
            throw DBusError(.invalidArguments, "interface \(name) has two members with the same name")
        }
    }

    private func check(_ arguments: [DBusArgument]) throws(DBusError) {
        _ = try DBusSignature(arguments.map(\.type))
    }
}

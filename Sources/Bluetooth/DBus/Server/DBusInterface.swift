/// The declaration of an interface for exported objects: its methods, properties and signals.
public struct DBusInterface: Sendable {
    /// The declaration of a signal, for introspection. A signal needs no declaration: `DBusConnection.emit` also sends
    /// undeclared signals.
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

    /// Checks all names, the types of all arguments, and the values of all properties. Throws `invalidArguments`.
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

/// A method of an exported interface.
public struct DBusMethod: Sendable {
    /// The code that executes a call of the method and returns the values of the reply.
    ///
    /// Handlers start in the order in which the calls arrive. Handlers run on the connection's thread and must not block this thread.
    /// While a handler waits with `await`, other handlers can run. The connection cancels all running handlers when the connection ends.
    ///
    /// If a handler throws an error, the caller gets an error reply. If the error is a `DBusError` with the code `remote`, the D-Bus
    /// name of the reply is `DBusError.name`. If the error is a `DBusError` with the code `unexpectedValue`, the D-Bus name is
    /// `InvalidArgs`. For all other errors, and if the values of the reply do not match the outputs, the D-Bus name is `Failed`.
    public typealias Handler = @Sendable (DBusIncomingCall) async throws -> [DBusValue]

    public let name: String
    public let inputs: [DBusArgument]
    public let outputs: [DBusArgument]
    let handler: Handler

    /// Creates a method. If the types of the arguments of a call differ from `inputs`, the caller gets the error
    /// `InvalidArgs`, and the handler does not run.
    public init(
        _ name: String, takes inputs: [DBusArgument] = [], returns outputs: [DBusArgument] = [],
        _ handler: @escaping Handler
    ) {
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.handler = handler
    }
}

/// A call of an exported method by another program.
public struct DBusIncomingCall: Sendable, Hashable {
    /// The caller's unique name.
    public var sender: String
    public var path: DBusObjectPath
    public var interface: String
    public var member: String
    /// The arguments. Their types match the method's inputs.
    public var arguments: [DBusValue]
    /// True if the caller expects a reply. If false, the connection does not send the handler's result or error.
    public var wantsReply: Bool
}

/// The declaration of a property of an exported interface. The connection stores the property's value and answers read
/// requests. `DBusConnection.update` changes the value.
public struct DBusProperty: Sendable {
    /// Defines how the signal `PropertiesChanged` announces a new value of the property. The raw values are the values of the annotation
    /// `EmitsChangedSignal` (D-Bus specification, "Introspection Data Format").
    public enum Announcement: String, Sendable {
        case value = "true"
        /// The signal contains the property's name, but not the new value.
        case invalidation = "invalidates"
        case nothing = "false"
        /// The value never changes.
        case constant = "const"
    }

    /// Accepts or refuses a new value from another program. The setter runs before the connection stores the value. The value has the
    /// declared type.
    ///
    /// To refuse the value, the setter throws an error. The other program then gets an error reply. `DBusMethod.Handler` describes the
    /// D-Bus name of this error reply.
    public typealias Setter = @Sendable (DBusValue) async throws -> Void

    public let name: String
    public let value: DBusValue
    public let announcement: Announcement
    let setter: Setter?

    /// Creates a property with an initial value. If `setter` is nil, other programs cannot set the property.
    public init(
        _ name: String, _ value: DBusValue, announcing announcement: Announcement = .value, setter: Setter? = nil
    ) {
        self.name = name
        self.value = value
        self.announcement = announcement
        self.setter = setter
    }
}

/// The declaration of an argument of a method or a signal. The name has no effect on calls and signals. Other programs see the name in
/// the introspection data.
public struct DBusArgument: Sendable, Hashable {
    public var name: String
    public var type: DBusType

    public init(_ name: String, _ type: DBusType) {
        self.name = name
        self.type = type
    }
}

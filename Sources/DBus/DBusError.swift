import DescriptorIO

/// Why something on the bus did not happen. Compared on the code and the D-Bus name.
public struct DBusError: Error, Sendable, Equatable {
    /// Stable.
    public enum Code: String, Sendable, CaseIterable {
        /// There is no bus at this address, or it does not let us in.
        case connectionFailed = "connection-failed"
        /// The connection was closed, by the bus or by us.
        case disconnected
        /// No answer came in time.
        case timedOut = "timed-out"
        /// The task that waited was cancelled.
        case cancelled
        /// The other side, or the bus itself, answered with an error: see `name`.
        case remote
        /// Refused here, before anything was sent: a malformed name, path or value.
        case invalidArguments = "invalid-arguments"
        /// What came is not what was expected.
        case unexpectedValue = "unexpected-value"
        /// Somebody else owns the name that was asked for.
        case nameTaken = "name-taken"
        /// The other end of a packet socket was closed, or ours was.
        case socketClosed = "socket-closed"
        case socketFailed = "socket-failed"
        /// No memory, no thread or no file descriptor is left, or the bus cannot carry what was given to it.
        case resourcesExhausted = "resources-exhausted"
    }

    public var code: Code
    /// The D-Bus error name, such as `org.bluez.Error.InProgress`: with `remote`, and only then.
    public var name: String?
    /// For people, without a full stop; with `remote` the other side's own words.
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// What the other side answered; and what a method's handler throws to answer with this name.
    public static func remote(_ name: String, _ message: String = "") -> DBusError {
        var error = DBusError(.remote, message)
        error.name = name
        return error
    }

    public static func == (left: DBusError, right: DBusError) -> Bool {
        left.code == right.code && left.name == right.name
    }
}

extension DBusError: CustomStringConvertible {
    public var description: String { "\(name ?? code.rawValue): \(message)" }
}

extension DBusError {
    /// Error names of the D-Bus specification and of the reference bus.
    public enum Name {
        static let prefix = "org.freedesktop.DBus.Error."
        public static let failed = prefix + "Failed"
        public static let noReply = prefix + "NoReply"
        public static let serviceUnknown = prefix + "ServiceUnknown"
        public static let nameHasNoOwner = prefix + "NameHasNoOwner"
        public static let accessDenied = prefix + "AccessDenied"
        public static let invalidArguments = prefix + "InvalidArgs"
        public static let unknownMethod = prefix + "UnknownMethod"
        public static let unknownObject = prefix + "UnknownObject"
        public static let unknownInterface = prefix + "UnknownInterface"
        public static let unknownProperty = prefix + "UnknownProperty"
        public static let propertyReadOnly = prefix + "PropertyReadOnly"
    }
}

extension DBusError {
    static var outOfMemory: DBusError { DBusError(.resourcesExhausted, "no memory for a message") }
    static var taskCancelled: DBusError { DBusError(.cancelled, "the task was cancelled") }
}

extension DBusError {
    init(_ error: DescriptorError) {
        switch error {
        case .cancelled: self = .taskCancelled
        case .closed: self.init(.socketClosed, "the socket is closed")
        case .system: self.init(.resourcesExhausted, error.description)
        }
    }
}

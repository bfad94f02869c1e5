import DescriptorIO

/// An error of a D-Bus operation. Two errors are equal if their `code` and `name` are equal. The messages are not
/// compared.
public struct DBusError: Error, Sendable, Equatable {
    /// The kind of an error. The raw values do not change between releases.
    public enum Code: String, Sendable, CaseIterable {
        /// The address of the bus is unknown, no bus is reachable at the address, or the bus refused the connection.
        case connectionFailed = "connection-failed"
        /// The bus or this program closed the connection.
        case disconnected
        /// No reply arrived before the timeout.
        case timedOut = "timed-out"
        /// The Swift task that waited for the operation was cancelled.
        case cancelled
        /// The called program or the bus replied with an error. ``DBusError/name`` is the D-Bus name of this error.
        case remote
        /// The caller passed a malformed or forbidden name, path or value. No message was sent.
        case invalidArguments = "invalid-arguments"
        /// A received value is missing, is malformed, or has the wrong type.
        case unexpectedValue = "unexpected-value"
        /// Another connection to the bus owns the requested bus name.
        case nameTaken = "name-taken"
        /// A ``PacketSocket`` is closed, either by this program or by the program at the other end.
        case socketClosed = "socket-closed"
        case socketFailed = "socket-failed"
        /// No memory, thread or file descriptor is available, or the bus does not support file descriptors.
        case resourcesExhausted = "resources-exhausted"
    }

    public var code: Code
    /// The D-Bus name of the error, such as `org.bluez.Error.InProgress`. Only errors with the code `remote` have a
    /// name.
    public var name: String?
    /// A description of the error for the user, without a full stop at the end. If the code is `remote`, the
    /// description is the text of the error reply.
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Creates an error with the code `remote`. If a handler of an exported method throws this error, the caller of the
    /// method gets an error reply with the D-Bus name `name`.
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
    /// The standard D-Bus error names. They are defined by the D-Bus specification or by dbus-daemon, the reference
    /// implementation of the bus.
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

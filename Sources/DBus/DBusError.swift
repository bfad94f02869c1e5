import DescriptorIO

/// An error of a D-Bus operation. Equality compares the code and the D-Bus name.
public struct DBusError: Error, Sendable, Equatable {
    /// The kind of the error. The raw values are stable.
    public enum Code: String, Sendable, CaseIterable {
        /// There is no bus at this address, or the bus refused the connection.
        case connectionFailed = "connection-failed"
        /// The bus or this program closed the connection.
        case disconnected
        /// No reply arrived before the timeout.
        case timedOut = "timed-out"
        /// The waiting task was cancelled.
        case cancelled
        /// The other program or the bus replied with an error; see `name`.
        case remote
        /// A name, path or value is malformed. Nothing was sent.
        case invalidArguments = "invalid-arguments"
        /// A received value is not the expected one.
        case unexpectedValue = "unexpected-value"
        /// Another connection owns the requested name.
        case nameTaken = "name-taken"
        /// Either end of a packet socket was closed.
        case socketClosed = "socket-closed"
        case socketFailed = "socket-failed"
        /// No memory, thread or file descriptor is available, or the bus cannot transfer the value.
        case resourcesExhausted = "resources-exhausted"
    }

    public var code: Code
    /// The D-Bus error name, such as `org.bluez.Error.InProgress`. Set only with `remote`.
    public var name: String?
    /// A description for people, without a full stop. With `remote`, it is the text from the other program.
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// An error reply from another program. A method's handler throws it to reply with this error name.
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

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
        /// The called program or the bus replied with an error. `name` is the name of this error.
        case remote
        /// A name, path or value is malformed. Nothing was sent.
        case invalidArguments = "invalid-arguments"
        /// A received value is missing, is malformed, or has the wrong type.
        case unexpectedValue = "unexpected-value"
        /// Another connection owns the requested name.
        case nameTaken = "name-taken"
        /// Either end of a packet socket was closed.
        case socketClosed = "socket-closed"
        case socketFailed = "socket-failed"
        /// No memory, thread or file descriptor is available, or the bus does not support file descriptors.
        case resourcesExhausted = "resources-exhausted"
    }

    public var code: Code
    /// The D-Bus error name, such as `org.bluez.Error.InProgress`. Set only with `remote`.
    public var name: String?
    /// A description for the user, without a full stop. With `remote`, it is the text of the error reply.
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Returns an error that represents an error reply. A handler of an exported method throws it to reply with this error
    /// name.
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
    /// Standard error names. They come from the D-Bus specification and from dbus-daemon, the reference implementation of the
    /// bus.
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

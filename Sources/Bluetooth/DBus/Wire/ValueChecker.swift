import CDBus

/// Checks values before they are sent. For some malformed values, libdbus aborts the process. For other malformed values, the bus
/// closes the connection.
struct ValueChecker {
    /// The maximum depth of nested containers (D-Bus specification, "Valid Signatures" and "Message Protocol").
    private static let deepest = 64
    /// The maximum size of all arguments of a message together: 64 MiB. The D-Bus specification limits each array to 64 MiB. If all
    /// arguments together are within this limit, each array is also within it.
    private static let largest = 1 << 26
    /// The maximum number of file descriptors in one message: SCM_MAX_FD of the Linux kernel.
    private static let mostDescriptors = 253

    private var size = 0
    private var descriptors = 0

    /// Checks the arguments of one message. Throws `invalidArguments`.
    static func check(_ arguments: [DBusValue]) throws(DBusError) {
        _ = try DBusSignature(arguments.map(\.type))
        var checker = ValueChecker()
        for argument in arguments { try checker.check(argument, depth: 0) }
    }

    private mutating func check(_ value: DBusValue, depth: Int) throws(DBusError) {
        guard depth <= Self.deepest else {
            throw DBusError(.invalidArguments, "more than \(Self.deepest) nested containers")
        }
        switch value {
        case .string(let text):
            try Names.check(string: text)
            try count(text.utf8.count)
        case .objectPath(let path):
            try Names.check(path: path)
            try count(path.text.utf8.count)
        case .signature(let signature):
            try count(signature.text.utf8.count)
        case .bytes(let bytes):
            try count(bytes.count)
        case .unixFileDescriptor:
            descriptors += 1
            guard descriptors <= Self.mostDescriptors else {
                throw DBusError(.invalidArguments, "more than \(Self.mostDescriptors) file descriptors in one message")
            }
            try count(0)
        case .variant(let inner):
            try count(DBusSignature([inner.type]).text.utf8.count)
            try check(inner, depth: depth + 1)
        case .array(let element, let values):
            guard element != .byte else { throw DBusError(.invalidArguments, "use `bytes` for an array of bytes") }
            try count(0)
            for value in values {
                try expect(element, value)
                try check(value, depth: depth + 1)
            }
        case .dictionary(let keyType, let valueType, let entries):
            try count(0)
            for (key, value) in entries {
                try expect(keyType, key)
                try expect(valueType, value)
                try check(key, depth: depth + 2)
                try check(value, depth: depth + 2)
            }
        case .structure(let fields):
            for field in fields { try check(field, depth: depth + 1) }
        case .byte, .boolean, .int16, .uint16, .int32, .uint32, .int64, .uint64, .double:
            try count(0)
        }
    }

    private func expect(_ type: DBusType, _ value: DBusValue) throws(DBusError) {
        let found = value.type
        guard found == type else {
            throw DBusError(.invalidArguments, "expected type \(type.text), got \(found.text)")
        }
    }

    /// Adds the estimated size of a value to `size`: `bytes` for the content, and 16 bytes for the length field and the padding. The
    /// estimate is never too small.
    private mutating func count(_ bytes: Int) throws(DBusError) {
        size += bytes + 16
        guard size <= Self.largest else {
            throw DBusError(.invalidArguments, "more than \(Self.largest) bytes in one message")
        }
    }
}

/// Checks names before they are passed to libdbus, because libdbus aborts the process on a malformed name. All methods
/// throw `invalidArguments`.
enum Names {
    static func check(path: DBusObjectPath) throws(DBusError) {
        try check(path.text, "object path", dbus_validate_path)
    }

    static func check(interface: String) throws(DBusError) {
        try check(interface, "interface name", dbus_validate_interface)
    }

    static func check(member: String) throws(DBusError) {
        try check(member, "member name", dbus_validate_member)
    }

    static func check(bus name: String) throws(DBusError) {
        try check(name, "bus name", dbus_validate_bus_name)
    }

    static func check(error name: String) throws(DBusError) {
        try check(name, "error name", dbus_validate_error_name)
    }

    static func check(string: String) throws(DBusError) {
        guard !string.utf8.contains(0) else { throw DBusError(.invalidArguments, "a string contains a NUL character") }
    }

    private static func check(
        _ name: String, _ kind: String,
        _ isValid: (UnsafePointer<CChar>?, UnsafeMutablePointer<CDBus.DBusError>?) -> dbus_bool_t
    ) throws(DBusError) {
        guard !name.utf8.contains(0), name.withCString({ isValid($0, nil) }) != 0 else {
            throw DBusError(.invalidArguments, "\"\(name)\" is not a valid \(kind)")
        }
    }
}

import CDBus

/// Converts messages between values and wire bytes, without a bus. Incoming bytes pass the checks of libdbus first, as on a
/// connection.
package enum WireMessage {
    /// Reads the arguments of a message. Throws `unexpectedValue` if libdbus refuses the message, and the errors of reading
    /// values.
    package static func arguments(of bytes: [UInt8]) throws(DBusError) -> [DBusValue] {
        try MessageReader.arguments(of: message(bytes))
    }

    /// Reads the object change in a method return, such as that of GetManagedObjects, or in a signal.
    package static func objectChange(of bytes: [UInt8]) throws(DBusError) -> DBusObjectChange? {
        let message = try message(bytes)
        let arguments = try MessageReader.arguments(of: message)
        guard message.kind == DBUS_MESSAGE_TYPE_SIGNAL else { return try DBusObjectChange(snapshot: arguments) }
        return DBusObjectChange(
            DBusSignal(
                sender: message.sender, path: message.path, interface: message.interface, member: message.member,
                arguments: arguments))
    }

    /// Creates the bytes of a signal with these arguments.
    package static func bytes(
        of arguments: [DBusValue], interface: String = "org.example.Wire", member: String = "Said"
    ) throws(DBusError) -> [UInt8] {
        let message = try Message.signal(.root, interface, member, arguments)
        // A message on the wire must have a serial number.
        dbus_message_set_serial(message.pointer, 1)
        var marshalled: UnsafeMutablePointer<CChar>?
        var count: CInt = 0
        guard dbus_message_marshal(message.pointer, &marshalled, &count) != 0, let marshalled else {
            throw .outOfMemory
        }
        defer { dbus_free(marshalled) }
        return UnsafeBufferPointer(start: marshalled, count: Int(count)).map { UInt8(bitPattern: $0) }
    }

    private static func message(_ bytes: [UInt8]) throws(DBusError) -> Message {
        var error = CDBus.DBusError()
        dbus_error_init(&error)
        defer { dbus_error_free(&error) }
        let text = bytes.map { CChar(bitPattern: $0) }
        guard let pointer = dbus_message_demarshal(text, CInt(clamping: text.count), &error) else {
            throw DBusError(
                .unexpectedValue, "not a message: \(error.message.map { String(cString: $0) } ?? "unknown")")
        }
        return Message(adopting: pointer)
    }
}

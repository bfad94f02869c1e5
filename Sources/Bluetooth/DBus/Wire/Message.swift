import CDBus

/// A message of libdbus. This object owns one reference to the message.
final class Message {
    let pointer: OpaquePointer

    init(adopting pointer: OpaquePointer) { self.pointer = pointer }

    private convenience init(_ pointer: OpaquePointer?) throws(DBusError) {
        guard let pointer else { throw .outOfMemory }
        self.init(adopting: pointer)
    }

    deinit { dbus_message_unref(pointer) }

    // MARK: - Created messages

    /// Creates a method call. Throws `resourcesExhausted`. Throws `invalidArguments` if a name, the path or an argument is malformed.
    static func call(_ call: DBusMethodCall, wantsReply: Bool = true) throws(DBusError) -> Message {
        try Names.check(bus: call.destination)
        try Names.check(path: call.path)
        try Names.check(interface: call.interface)
        try Names.check(member: call.member)
        let message = try Message(
            dbus_message_new_method_call(call.destination, call.path.text, call.interface, call.member))
        dbus_message_set_no_reply(message.pointer, wantsReply ? 0 : 1)
        try message.append(call.arguments)
        return message
    }

    /// Creates a signal. Throws `resourcesExhausted`. Throws `invalidArguments` if a name, the path or an argument is malformed.
    static func signal(
        _ path: DBusObjectPath, _ interface: String, _ member: String, _ arguments: [DBusValue]
    ) throws(DBusError) -> Message {
        try Names.check(path: path)
        try Names.check(interface: interface)
        try Names.check(member: member)
        let message = try Message(dbus_message_new_signal(path.text, interface, member))
        try message.append(arguments)
        return message
    }

    /// Creates a reply. Throws `resourcesExhausted`. Throws `invalidArguments` if an argument is malformed.
    static func reply(to address: ReturnAddress, _ arguments: [DBusValue]) throws(DBusError) -> Message {
        let message = try reply(to: address, DBUS_MESSAGE_TYPE_METHOD_RETURN)
        try message.append(arguments)
        return message
    }

    /// Creates an error reply. If the name of the error is malformed, this method uses the name `Failed`. This method must not throw in
    /// this case, because without a reply, the caller would wait until the timeout.
    static func failure(to address: ReturnAddress, _ error: DBusError) throws(DBusError) -> Message {
        let message = try reply(to: address, DBUS_MESSAGE_TYPE_ERROR)
        let general = error.code == .unexpectedValue ? DBusError.Name.invalidArguments : DBusError.Name.failed
        var name = error.name ?? general
        do throws(DBusError) { try Names.check(error: name) } catch { name = DBusError.Name.failed }
        guard dbus_message_set_error_name(message.pointer, name) != 0 else { throw .outOfMemory }
        try message.append([.string(String(error.message.prefix { $0 != "\0" }))])
        return message
    }

    private static func reply(to address: ReturnAddress, _ type: CInt) throws(DBusError) -> Message {
        let message = try Message(dbus_message_new(type))
        dbus_message_set_no_reply(message.pointer, 1)
        guard dbus_message_set_reply_serial(message.pointer, address.serial) != 0,
            dbus_message_set_destination(message.pointer, address.sender) != 0
        else { throw .outOfMemory }
        return message
    }

    private func append(_ arguments: [DBusValue]) throws(DBusError) {
        try ValueChecker.check(arguments)
        try MessageWriter.append(arguments, to: self)
    }

    // MARK: - Received messages

    var kind: CInt { dbus_message_get_type(pointer) }
    var serial: UInt32 { dbus_message_get_serial(pointer) }
    var replySerial: UInt32 { dbus_message_get_reply_serial(pointer) }
    var wantsReply: Bool { dbus_message_get_no_reply(pointer) == 0 }
    var sender: String { text(dbus_message_get_sender(pointer)) }
    var path: DBusObjectPath { DBusObjectPath(text(dbus_message_get_path(pointer))) }
    var interface: String { text(dbus_message_get_interface(pointer)) }
    var member: String { text(dbus_message_get_member(pointer)) }
    var errorName: String { text(dbus_message_get_error_name(pointer)) }
    var signature: String { text(dbus_message_get_signature(pointer)) }

    private func text(_ pointer: UnsafePointer<CChar>?) -> String { pointer.map { String(cString: $0) } ?? "" }
}

/// The serial number and the sender of a received call. A reply contains both.
struct ReturnAddress: Sendable {
    var serial: UInt32
    var sender: String
}

/// Converts between values and the bytes of a message, without a bus, for tests. libdbus checks the bytes in the same way as the bytes
/// from a bus.
package enum WireMessage {
    /// Returns the arguments of a message. Throws `unexpectedValue` if the message or a value is malformed. Throws
    /// `resourcesExhausted` if no memory or file descriptor is available.
    package static func arguments(of bytes: [UInt8]) throws(DBusError) -> [DBusValue] {
        try MessageReader.arguments(of: message(bytes))
    }

    /// Reads an object change from a message. The message must be a signal or the reply to `GetManagedObjects`. Returns nil
    /// if the message is a signal that does not report an object change.
    package static func objectChange(of bytes: [UInt8]) throws(DBusError) -> DBusObjectChange? {
        let message = try message(bytes)
        let arguments = try MessageReader.arguments(of: message)
        guard message.kind == DBUS_MESSAGE_TYPE_SIGNAL else { return try DBusObjectChange(snapshot: arguments) }
        return DBusObjectChange(
            DBusSignal(
                sender: message.sender, path: message.path, interface: message.interface, member: message.member,
                arguments: arguments))
    }

    /// Returns the bytes of a signal with these arguments. Throws `invalidArguments` and `resourcesExhausted`.
    package static func bytes(
        of arguments: [DBusValue], interface: String = "org.example.Wire", member: String = "Said"
    ) throws(DBusError) -> [UInt8] {
        let message = try Message.signal(.root, interface, member, arguments)
        // Every message on the bus must have a serial number other than 0.
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

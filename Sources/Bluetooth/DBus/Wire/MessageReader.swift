import CDBus

/// Reads the values of messages. libdbus has already checked each message: strings are valid UTF-8, paths are well-formed, and
/// containers are nested at most 64 levels deep.
enum MessageReader {
    /// Returns the arguments of a message. Throws `unexpectedValue` if an argument has an unknown type. Throws
    /// `resourcesExhausted` if a file descriptor cannot be duplicated.
    static func arguments(of message: Message) throws(DBusError) -> [DBusValue] {
        var iterator = DBusMessageIter()
        guard dbus_message_iter_init(message.pointer, &iterator) != 0 else { return [] }
        return try values(try types(message.signature), &iterator)
    }

    private static func types(_ signature: String) throws(DBusError) -> [DBusType] {
        guard let types = DBusSignature.parse(signature) else {
            throw DBusError(.unexpectedValue, "received a value of unknown type \(signature)")
        }
        return types
    }

    private static func values(
        _ types: [DBusType], _ iterator: inout DBusMessageIter
    ) throws(DBusError) -> [DBusValue] {
        var values: [DBusValue] = []
        values.reserveCapacity(types.count)
        for type in types {
            values.append(try value(type, &iterator))
            dbus_message_iter_next(&iterator)
        }
        return values
    }

    private static func value(_ type: DBusType, _ iterator: inout DBusMessageIter) throws(DBusError) -> DBusValue {
        switch type {
        case .byte: return .byte(basic(0, &iterator))
        case .boolean: return .boolean(basic(dbus_bool_t(0), &iterator) != 0)
        case .int16: return .int16(basic(0, &iterator))
        case .uint16: return .uint16(basic(0, &iterator))
        case .int32: return .int32(basic(0, &iterator))
        case .uint32: return .uint32(basic(0, &iterator))
        case .int64: return .int64(basic(0, &iterator))
        case .uint64: return .uint64(basic(0, &iterator))
        case .double: return .double(basic(0, &iterator))
        case .string: return .string(text(&iterator))
        case .objectPath: return .objectPath(DBusObjectPath(text(&iterator)))
        case .signature: return .signature(try DBusSignature(text(&iterator)))
        case .unixFileDescriptor:
            // libdbus returns a duplicate of the descriptor, or a negative number if the descriptor cannot be duplicated.
            let descriptor = basic(CInt(-1), &iterator)
            guard descriptor >= 0 else {
                throw DBusError(.resourcesExhausted, "the received file descriptor cannot be duplicated")
            }
            return .unixFileDescriptor(DBusFileDescriptor(adopting: descriptor))
        case .variant:
            var inside = recursed(&iterator)
            guard let inner = try types(signature(&inside)).first else {
                throw DBusError(.unexpectedValue, "received a variant without a value")
            }
            return .variant(try value(inner, &inside))
        case .array(.byte):
            var inside = recursed(&iterator)
            return .bytes(bytes(&inside))
        case .array(let element):
            var inside = recursed(&iterator)
            var values: [DBusValue] = []
            while dbus_message_iter_get_arg_type(&inside) != 0 {
                values.append(try value(element, &inside))
                dbus_message_iter_next(&inside)
            }
            return .array(of: element, values)
        case .dictionary(let key, let element):
            var inside = recursed(&iterator)
            var entries: [DBusValue: DBusValue] = [:]
            while dbus_message_iter_get_arg_type(&inside) != 0 {
                var entry = recursed(&inside)
                let pair = try values([key, element], &entry)
                entries[pair[0]] = pair[1]
                dbus_message_iter_next(&inside)
            }
            return .dictionary(key: key, value: element, entries)
        case .structure(let types):
            var inside = recursed(&iterator)
            return .structure(try values(types, &inside))
        }
    }

    private static func recursed(_ iterator: inout DBusMessageIter) -> DBusMessageIter {
        var inside = DBusMessageIter()
        dbus_message_iter_recurse(&iterator, &inside)
        return inside
    }

    private static func basic<Value: BitwiseCopyable>(_ initial: Value, _ iterator: inout DBusMessageIter) -> Value {
        var value = initial
        withUnsafeMutablePointer(to: &value) { dbus_message_iter_get_basic(&iterator, $0) }
        return value
    }

    private static func text(_ iterator: inout DBusMessageIter) -> String {
        var pointer: UnsafePointer<CChar>?
        withUnsafeMutablePointer(to: &pointer) { dbus_message_iter_get_basic(&iterator, $0) }
        return pointer.map { String(cString: $0) } ?? ""
    }

    private static func bytes(_ iterator: inout DBusMessageIter) -> [UInt8] {
        var pointer: UnsafePointer<UInt8>?
        var count: CInt = 0
        withUnsafeMutablePointer(to: &pointer) { dbus_message_iter_get_fixed_array(&iterator, $0, &count) }
        return Array(UnsafeBufferPointer(start: pointer, count: pointer == nil ? 0 : Int(count)))
    }

    private static func signature(_ iterator: inout DBusMessageIter) -> String {
        guard let text = dbus_message_iter_get_signature(&iterator) else { return "" }
        defer { dbus_free(text) }
        return String(cString: text)
    }
}

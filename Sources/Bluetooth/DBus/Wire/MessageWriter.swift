import CDBus

/// Appends values to messages. Check the values with `ValueChecker` first, because libdbus aborts the process on some malformed values.
enum MessageWriter {
    /// Appends values to a message. Throws `resourcesExhausted`. Throws `invalidArguments` if a file descriptor is closed.
    static func append(_ values: [DBusValue], to message: Message) throws(DBusError) {
        var iterator = DBusMessageIter()
        dbus_message_iter_init_append(message.pointer, &iterator)
        for value in values { try append(value, &iterator) }
    }

    private static func append(_ value: DBusValue, _ iterator: inout DBusMessageIter) throws(DBusError) {
        let code = value.type.code
        switch value {
        case .byte(let value): try basic(value, code, &iterator)
        case .boolean(let value): try basic(dbus_bool_t(value ? 1 : 0), code, &iterator)
        case .int16(let value): try basic(value, code, &iterator)
        case .uint16(let value): try basic(value, code, &iterator)
        case .int32(let value): try basic(value, code, &iterator)
        case .uint32(let value): try basic(value, code, &iterator)
        case .int64(let value): try basic(value, code, &iterator)
        case .uint64(let value): try basic(value, code, &iterator)
        case .double(let value): try basic(value, code, &iterator)
        case .string(let value): try text(value, code, &iterator)
        case .objectPath(let value): try text(value.text, code, &iterator)
        case .signature(let value): try text(value.text, code, &iterator)
        case .unixFileDescriptor(let owner): try descriptor(owner, code, &iterator)
        case .bytes(let value): try bytes(value, &iterator)
        case .variant(let inner):
            try container(code, inner.type.text, &iterator) { inside throws(DBusError) in try append(inner, &inside) }
        case .array(let element, let values):
            try container(code, element.text, &iterator) { inside throws(DBusError) in
                for value in values { try append(value, &inside) }
            }
        case .dictionary(let keyType, let valueType, let entries):
            try container(code, "{" + keyType.text + valueType.text + "}", &iterator) { inside throws(DBusError) in
                for (key, value) in ordered(entries) {
                    try container(entryCode, nil, &inside) { entry throws(DBusError) in
                        try append(key, &entry)
                        try append(value, &entry)
                    }
                }
            }
        case .structure(let fields):
            try container(code, nil, &iterator) { inside throws(DBusError) in
                for field in fields { try append(field, &inside) }
            }
        }
    }

    private static let entryCode = CInt(UInt8(ascii: "e"))

    /// Returns the entries of a dictionary, sorted by key if the keys are strings or object paths.
    ///
    /// The order must be the same each time: bluetoothd assigns the attribute handles of a GATT application in this order, and centrals
    /// cache the handles.
    private static func ordered(_ entries: [DBusValue: DBusValue]) -> [(key: DBusValue, value: DBusValue)] {
        func text(_ key: DBusValue) -> String { key.string ?? key.objectPath?.text ?? "" }
        return entries.sorted { text($0.key) < text($1.key) }
    }

    private static func basic<Value: BitwiseCopyable>(
        _ value: Value, _ code: CInt, _ iterator: inout DBusMessageIter
    ) throws(DBusError) {
        guard withUnsafePointer(to: value, { dbus_message_iter_append_basic(&iterator, code, $0) }) != 0 else {
            throw .outOfMemory
        }
    }

    private static func text(
        _ text: String, _ code: CInt, _ iterator: inout DBusMessageIter
    ) throws(DBusError) {
        let appended = text.withCString { pointer in
            withUnsafePointer(to: pointer) { dbus_message_iter_append_basic(&iterator, code, $0) }
        }
        guard appended != 0 else { throw .outOfMemory }
    }

    /// Appends a duplicate of a file descriptor.
    private static func descriptor(
        _ owner: DBusFileDescriptor, _ code: CInt, _ iterator: inout DBusMessageIter
    ) throws(DBusError) {
        let appended: dbus_bool_t? = owner.withDescriptor { descriptor in
            descriptor.map { value in
                withUnsafePointer(to: value) { dbus_message_iter_append_basic(&iterator, code, $0) }
            }
        }
        guard let appended else { throw DBusError(.invalidArguments, "the file descriptor is closed") }
        guard appended != 0 else { throw DBusError(.resourcesExhausted, "the file descriptor cannot be duplicated") }
    }

    private static func bytes(_ bytes: [UInt8], _ iterator: inout DBusMessageIter) throws(DBusError) {
        try container(DBusType.bytes.code, DBusType.byte.text, &iterator) { inside throws(DBusError) in
            guard !bytes.isEmpty else { return }
            let appended = bytes.withUnsafeBufferPointer { buffer in
                // libdbus expects a pointer to a pointer to the bytes.
                withUnsafePointer(to: buffer.baseAddress) {
                    dbus_message_iter_append_fixed_array(&inside, DBusType.byte.code, $0, CInt(buffer.count))
                }
            }
            guard appended != 0 else { throw .outOfMemory }
        }
    }

    private static func container(
        _ code: CInt, _ signature: String?, _ iterator: inout DBusMessageIter,
        _ fill: (inout DBusMessageIter) throws(DBusError) -> Void
    ) throws(DBusError) {
        var inside = DBusMessageIter()
        guard dbus_message_iter_open_container(&iterator, code, signature, &inside) != 0 else { throw .outOfMemory }
        do throws(DBusError) { try fill(&inside) } catch {
            dbus_message_iter_abandon_container(&iterator, &inside)
            throw error
        }
        guard dbus_message_iter_close_container(&iterator, &inside) != 0 else { throw .outOfMemory }
    }
}

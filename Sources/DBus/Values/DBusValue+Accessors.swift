/// Typed access to the content of a value. Each accessor returns nil for a value of another type. Variants are removed
/// first.
extension DBusValue {
    /// The value without the variants around it.
    public var unwrapped: DBusValue {
        if case .variant(let value) = self { value.unwrapped } else { self }
    }

    public var byte: UInt8? { if case .byte(let value) = unwrapped { value } else { nil } }
    public var boolean: Bool? { if case .boolean(let value) = unwrapped { value } else { nil } }
    public var int16: Int16? { if case .int16(let value) = unwrapped { value } else { nil } }
    public var uint16: UInt16? { if case .uint16(let value) = unwrapped { value } else { nil } }
    public var int32: Int32? { if case .int32(let value) = unwrapped { value } else { nil } }
    public var uint32: UInt32? { if case .uint32(let value) = unwrapped { value } else { nil } }
    public var int64: Int64? { if case .int64(let value) = unwrapped { value } else { nil } }
    public var uint64: UInt64? { if case .uint64(let value) = unwrapped { value } else { nil } }
    public var double: Double? { if case .double(let value) = unwrapped { value } else { nil } }
    public var string: String? { if case .string(let value) = unwrapped { value } else { nil } }
    public var objectPath: DBusObjectPath? { if case .objectPath(let value) = unwrapped { value } else { nil } }
    public var signature: DBusSignature? { if case .signature(let value) = unwrapped { value } else { nil } }
    public var bytes: [UInt8]? { if case .bytes(let value) = unwrapped { value } else { nil } }
    public var structure: [DBusValue]? { if case .structure(let value) = unwrapped { value } else { nil } }
    /// The elements of an array. Nil for an array of bytes.
    public var array: [DBusValue]? { if case .array(_, let value) = unwrapped { value } else { nil } }
    public var dictionary: [DBusValue: DBusValue]? {
        if case .dictionary(_, _, let value) = unwrapped { value } else { nil }
    }
    public var unixFileDescriptor: DBusFileDescriptor? {
        if case .unixFileDescriptor(let value) = unwrapped { value } else { nil }
    }

    /// An integer of any width; nil if it does not fit into `Int`.
    public var integer: Int? {
        switch unwrapped {
        case .byte(let value): Int(value)
        case .int16(let value): Int(value)
        case .uint16(let value): Int(value)
        case .int32(let value): Int(value)
        case .uint32(let value): Int(exactly: value)
        case .int64(let value): Int(exactly: value)
        case .uint64(let value): Int(exactly: value)
        default: nil
        }
    }

    /// The elements of an array of strings (`as`).
    public var strings: [String]? {
        if case .array(of: .string, let values) = unwrapped { values.compactMap(\.string) } else { nil }
    }

    /// The elements of an array of object paths (`ao`).
    public var objectPaths: [DBusObjectPath]? {
        if case .array(of: .objectPath, let values) = unwrapped { values.compactMap(\.objectPath) } else { nil }
    }

    /// The entries of `a{sv}` or another dictionary with string keys. The values have no variants around them.
    public var properties: [String: DBusValue]? {
        guard case .dictionary(key: .string, _, let entries) = unwrapped else { return nil }
        let pairs = entries.compactMap { key, value in key.string.map { ($0, value.unwrapped) } }
        return Dictionary(pairs) { _, last in last }
    }

    /// Returns the content or throws `unexpectedValue`. Example: `try value.require(\.string)`.
    public func require<Content>(_ content: KeyPath<DBusValue, Content?>) throws(DBusError) -> Content {
        guard let found = self[keyPath: content] else {
            throw DBusError(.unexpectedValue, "expected \(Content.self), got type \(unwrapped.type.text)")
        }
        return found
    }
}

extension [DBusValue] {
    /// Returns the content of one argument or throws `unexpectedValue`. Example: `try reply.require(0, \.objectPath)`.
    public func require<Content>(
        _ index: Int, _ content: KeyPath<DBusValue, Content?>
    ) throws(DBusError) -> Content {
        guard indices.contains(index) else {
            throw DBusError(.unexpectedValue, "expected \(Content.self), but the message has only \(count) values")
        }
        return try self[index].require(content)
    }
}

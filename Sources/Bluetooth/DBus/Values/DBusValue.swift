/// A D-Bus value.
///
/// ``DBusConnection`` checks each value before it is sent, and throws `invalidArguments` for a malformed value. The elements of an array
/// and the entries of a dictionary must have the declared types. Object paths must be well-formed. Strings must not contain a NUL
/// character.
///
/// A string, Boolean or floating-point literal has the corresponding D-Bus type. An integer literal is an `int32`. The element type of
/// an array literal is the type of its first element. An empty array literal is an array of variants. A dictionary literal is an
/// `a{sv}`: each value that is not a variant is put into a variant.
public indirect enum DBusValue: Sendable, Hashable {
    case byte(UInt8)
    case boolean(Bool)
    case int16(Int16)
    case uint16(UInt16)
    case int32(Int32)
    case uint32(UInt32)
    case int64(Int64)
    case uint64(UInt64)
    case double(Double)
    case string(String)
    case objectPath(DBusObjectPath)
    case signature(DBusSignature)
    case unixFileDescriptor(DBusFileDescriptor)
    case variant(DBusValue)
    /// An array of bytes (`ay`). Use this case for every array of bytes. The methods of ``DBusConnection`` throw `invalidArguments` for
    /// the case `array` with bytes.
    case bytes([UInt8])
    case array(of: DBusType, [DBusValue])
    case dictionary(key: DBusType, value: DBusType, [DBusValue: DBusValue])
    case structure([DBusValue])

    public var type: DBusType {
        switch self {
        case .byte: .byte
        case .boolean: .boolean
        case .int16: .int16
        case .uint16: .uint16
        case .int32: .int32
        case .uint32: .uint32
        case .int64: .int64
        case .uint64: .uint64
        case .double: .double
        case .string: .string
        case .objectPath: .objectPath
        case .signature: .signature
        case .unixFileDescriptor: .unixFileDescriptor
        case .variant: .variant
        case .bytes: .bytes
        case .array(let element, _): .array(element)
        case .dictionary(let key, let value, _): .dictionary(key: key, value: value)
        case .structure(let fields): .structure(fields.map(\.type))
        }
    }

    /// Creates an array of strings (`as`).
    public static func strings(_ strings: [String]) -> DBusValue { .array(of: .string, strings.map { .string($0) }) }

    /// Creates an array of object paths (`ao`).
    public static func objectPaths(_ paths: [DBusObjectPath]) -> DBusValue {
        .array(of: .objectPath, paths.map { .objectPath($0) })
    }

    /// Creates a dictionary with strings as keys and variants as values (`a{sv}`). Each value that is not a variant is put into a
    /// variant.
    public static func properties(_ properties: [String: DBusValue]) -> DBusValue {
        let entries = properties.map { (DBusValue.string($0), $1.inVariant) }
        return .dictionary(key: .string, value: .variant, Dictionary(entries) { _, last in last })
    }

    var inVariant: DBusValue {
        if case .variant = self { self } else { .variant(self) }
    }
}

extension DBusValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(booleanLiteral value: Bool) { self = .boolean(value) }
    public init(integerLiteral value: Int32) { self = .int32(value) }
    public init(floatLiteral value: Double) { self = .double(value) }

    public init(arrayLiteral elements: DBusValue...) {
        self = .array(of: elements.first?.type ?? .variant, elements)
    }

    public init(dictionaryLiteral elements: (String, DBusValue)...) {
        self = .properties(Dictionary(elements) { _, last in last })
    }
}

/// Typed access to the content of a value. Each property first removes the variants around the value. The property is nil
/// if the value has another type.
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
    /// The elements of an array. This property is nil for an array of bytes. Use `bytes` for an array of bytes.
    public var array: [DBusValue]? { if case .array(_, let value) = unwrapped { value } else { nil } }
    public var dictionary: [DBusValue: DBusValue]? {
        if case .dictionary(_, _, let value) = unwrapped { value } else { nil }
    }
    public var unixFileDescriptor: DBusFileDescriptor? {
        if case .unixFileDescriptor(let value) = unwrapped { value } else { nil }
    }

    /// The number in a value of any integer type; nil if the number does not fit into `Int`.
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

    /// The entries of a dictionary with string keys, such as `a{sv}`. The values have no variants around them.
    public var properties: [String: DBusValue]? {
        guard case .dictionary(key: .string, _, let entries) = unwrapped else { return nil }
        let pairs = entries.compactMap { key, value in key.string.map { ($0, value.unwrapped) } }
        return Dictionary(pairs) { _, last in last }
    }

    /// Returns the property `content` of the value. If the value has another type, this property is nil, and this method throws
    /// `unexpectedValue`. Example: `try value.require(\.string)`.
    public func require<Content>(_ content: KeyPath<DBusValue, Content?>) throws(DBusError) -> Content {
        guard let found = self[keyPath: content] else {
            throw DBusError(.unexpectedValue, "expected \(Content.self), got type \(unwrapped.type.text)")
        }
        return found
    }
}

extension [DBusValue] {
    /// Returns the property `content` of the value at `index`. Throws `unexpectedValue` if the array has no value at `index`, or
    /// if the value has another type. Example: `try reply.require(0, \.objectPath)`.
    public func require<Content>(
        _ index: Int, _ content: KeyPath<DBusValue, Content?>
    ) throws(DBusError) -> Content {
        guard indices.contains(index) else {
            throw DBusError(.unexpectedValue, "expected \(Content.self), but the message has only \(count) values")
        }
        return try self[index].require(content)
    }
}

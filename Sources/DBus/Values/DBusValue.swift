/// A value on the bus.
///
/// Whether it is well-formed is checked when it is sent, which throws `invalidArguments`: every element of an array and every
/// key and value of a dictionary must be of the declared type, paths must be paths, and no string may hold a NUL.
///
/// Literals: a string, a Boolean and a floating-point literal are what they seem, an integer literal is an `int32`, an array
/// literal is an array of its first element's type (of variants if it is empty), and a dictionary literal is `a{sv}`: its
/// values are put into variants where they are none.
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
    /// `ay`, which has no other form: `array` does not take bytes.
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

    /// `as`.
    public static func strings(_ strings: [String]) -> DBusValue { .array(of: .string, strings.map { .string($0) }) }

    /// `ao`.
    public static func objectPaths(_ paths: [DBusObjectPath]) -> DBusValue {
        .array(of: .objectPath, paths.map { .objectPath($0) })
    }

    /// `a{sv}`: each value is put into a variant unless it is one.
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

/// A D-Bus value.
///
/// Values are checked when they are sent; a malformed value throws `invalidArguments`. Elements of an array and keys and
/// values of a dictionary must have the declared type. Paths must be well-formed. Strings must not contain a NUL.
///
/// Literals: a string, Boolean or floating-point literal has the corresponding D-Bus type. An integer literal is an
/// `int32`. An array literal has the type of its first element; an empty one is an array of variants. A dictionary literal
/// is `a{sv}`: values that are not variants are put into variants.
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
    /// An array of bytes (`ay`). This is its only form; `array` does not accept bytes.
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

    /// An array of strings (`as`).
    public static func strings(_ strings: [String]) -> DBusValue { .array(of: .string, strings.map { .string($0) }) }

    /// An array of object paths (`ao`).
    public static func objectPaths(_ paths: [DBusObjectPath]) -> DBusValue {
        .array(of: .objectPath, paths.map { .objectPath($0) })
    }

    /// A dictionary `a{sv}`. Values that are not variants are put into variants.
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

/// A single complete type of D-Bus (specification, "Type System").
public indirect enum DBusType: Sendable, Hashable {
    case byte, boolean, int16, uint16, int32, uint32, int64, uint64, double
    case string, objectPath, signature
    case unixFileDescriptor
    case variant
    case array(DBusType)
    case dictionary(key: DBusType, value: DBusType)
    case structure([DBusType])

    /// An array of bytes (`ay`).
    public static let bytes = DBusType.array(.byte)
    /// A dictionary from strings to variants (`a{sv}`).
    public static let properties = DBusType.dictionary(key: .string, value: .variant)

    /// The type as text in a signature, such as `a{sv}`.
    public var text: String {
        switch self {
        case .array(let element): "a" + element.text
        case .dictionary(let key, let value): "a{" + key.text + value.text + "}"
        case .structure(let fields): "(" + fields.map(\.text).joined() + ")"
        default: String(UnicodeScalar(UInt8(truncatingIfNeeded: code)))
        }
    }

    /// The character for the type in libdbus. libdbus treats a dictionary as an array of entries.
    var code: CInt {
        let character: Unicode.Scalar =
            switch self {
            case .byte: "y"
            case .boolean: "b"
            case .int16: "n"
            case .uint16: "q"
            case .int32: "i"
            case .uint32: "u"
            case .int64: "x"
            case .uint64: "t"
            case .double: "d"
            case .string: "s"
            case .objectPath: "o"
            case .signature: "g"
            case .unixFileDescriptor: "h"
            case .variant: "v"
            case .array, .dictionary: "a"
            case .structure: "r"
            }
        return CInt(character.value)
    }

    /// Creates a basic type (not a container) from its character.
    init?(code: UInt8) {
        switch code {
        case UInt8(ascii: "y"): self = .byte
        case UInt8(ascii: "b"): self = .boolean
        case UInt8(ascii: "n"): self = .int16
        case UInt8(ascii: "q"): self = .uint16
        case UInt8(ascii: "i"): self = .int32
        case UInt8(ascii: "u"): self = .uint32
        case UInt8(ascii: "x"): self = .int64
        case UInt8(ascii: "t"): self = .uint64
        case UInt8(ascii: "d"): self = .double
        case UInt8(ascii: "s"): self = .string
        case UInt8(ascii: "o"): self = .objectPath
        case UInt8(ascii: "g"): self = .signature
        case UInt8(ascii: "h"): self = .unixFileDescriptor
        case UInt8(ascii: "v"): self = .variant
        default: return nil
        }
    }

    /// Whether the type is allowed as the key of a dictionary.
    var isBasic: Bool {
        switch self {
        case .variant, .array, .dictionary, .structure: false
        default: true
        }
    }
}

/// A D-Bus signature: the types of zero or more values, such as `sa{sv}`.
///
/// A signature has at most 255 characters. Arrays can be nested at most 32 levels deep. The same limit applies to
/// structures and to dictionary entries (D-Bus specification, "Valid Signatures").
public struct DBusSignature: Sendable, Hashable {
    public let types: [DBusType]
    public let text: String

    private static let longest = 255

    /// Parses a signature. Throws `invalidArguments` if the text is not a valid signature.
    public init(_ text: String) throws(DBusError) {
        guard let types = Self.parse(text) else {
            throw DBusError(.invalidArguments, "not a valid signature: \(text)")
        }
        self.types = types
        self.text = text
    }

    /// Creates a signature from types. Throws `invalidArguments` if the signature is too long, if the types are nested too deeply, or if
    /// a type is invalid. There are two invalid types: a structure without fields, and a dictionary with a container as its key.
    public init(_ types: [DBusType]) throws(DBusError) {
        try self.init(types.map(\.text).joined())
    }

    static func parse(_ text: String) -> [DBusType]? {
        guard text.utf8.count <= longest else { return nil }
        if let code = text.utf8.first, text.utf8.count == 1 { return DBusType(code: code).map { [$0] } }
        var parser = Parser(rest: Array(text.utf8)[...])
        var types: [DBusType] = []
        while !parser.rest.isEmpty {
            guard let type = parser.type(Depth()) else { return nil }
            types.append(type)
        }
        return types
    }
}

private struct Depth {
    var arrays = 0
    var structures = 0
    var entries = 0

    var isAllowed: Bool { max(arrays, structures, entries) <= 32 }
}

private struct Parser {
    var rest: ArraySlice<UInt8>

    mutating func type(_ depth: Depth) -> DBusType? {
        var depth = depth
        guard let code = rest.popFirst() else { return nil }
        switch code {
        case UInt8(ascii: "a"):
            depth.arrays += 1
            guard depth.isAllowed else { return nil }
            if rest.first == UInt8(ascii: "{") { return dictionary(depth) }
            return type(depth).map { .array($0) }
        case UInt8(ascii: "("):
            depth.structures += 1
            guard depth.isAllowed else { return nil }
            return structure(depth)
        default:
            return DBusType(code: code)
        }
    }

    private mutating func dictionary(_ depth: Depth) -> DBusType? {
        var depth = depth
        depth.entries += 1
        rest.removeFirst()
        guard depth.isAllowed, let key = type(depth), key.isBasic, let value = type(depth),
            rest.popFirst() == UInt8(ascii: "}")
        else { return nil }
        return .dictionary(key: key, value: value)
    }

    private mutating func structure(_ depth: Depth) -> DBusType? {
        var fields: [DBusType] = []
        while let next = rest.first, next != UInt8(ascii: ")") {
            guard let field = type(depth) else { return nil }
            fields.append(field)
        }
        guard !fields.isEmpty, rest.popFirst() != nil else { return nil }
        return .structure(fields)
    }
}

/// The type of a D-Bus value (D-Bus specification, "Type System").
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

    /// The type code of libdbus, an ASCII character. A dictionary has the code of an array, because libdbus treats a dictionary as an
    /// array of entries.
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

    /// Creates a type from a signature of one character. Returns nil if the character alone is not a type, for example `a` or `(`.
    fileprivate init?(code: UInt8) {
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

    /// Whether the type is allowed as the key of a dictionary. D-Bus does not allow containers as keys.
    fileprivate var isBasic: Bool {
        switch self {
        case .variant, .array, .dictionary, .structure: false
        default: true
        }
    }
}

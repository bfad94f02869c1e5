/// A sequence of zero or more complete types. The D-Bus specification limits it to 255 characters and to 32 nested arrays,
/// structures or dictionary entries.
public struct DBusSignature: Sendable, Hashable {
    public let types: [DBusType]
    public let text: String

    static let longest = 255

    /// Parses a signature. Throws `invalidArguments`.
    public init(_ text: String) throws(DBusError) {
        guard let types = Self.parse(text) else {
            throw DBusError(.invalidArguments, "not a valid signature: \(text)")
        }
        self.types = types
        self.text = text
    }

    /// Creates a signature. Throws `invalidArguments` if there are too many types, if they are nested too deeply, or if a
    /// type is invalid (an empty structure, or a dictionary with a container as its key).
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

import FoundationEssentials

/// A JSON value whose members are read by name.
@dynamicMemberLookup
enum JSONValue: Decodable, Equatable {
    case null, bool(Bool), number(Double), string(String), array([JSONValue]), object([String: JSONValue])

    init(parsing text: String) throws { self = try JSONDecoder().decode(JSONValue.self, from: Data(text.utf8)) }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    /// The member with this name; nil if it does not exist.
    subscript(dynamicMember name: String) -> JSONValue? {
        if case .object(let members) = self { members[name] } else { nil }
    }

    subscript(index: Int) -> JSONValue? {
        if case .array(let elements) = self, elements.indices.contains(index) { elements[index] } else { nil }
    }

    var string: String? { if case .string(let value) = self { value } else { nil } }
    /// The first line of a string, such as the next step of a hint.
    var firstLine: String? { string?.split(separator: "\n").first.map(String.init) }
    var number: Double? { if case .number(let value) = self { value } else { nil } }
    var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    var array: [JSONValue]? { if case .array(let value) = self { value } else { nil } }

    /// The sorted names of the members.
    var members: [String] { if case .object(let members) = self { members.keys.sorted() } else { [] } }

    /// Whether the value contains a null at any depth. A result must not contain null.
    var holdsNull: Bool {
        switch self {
        case .null: true
        case .array(let elements): elements.contains(where: \.holdsNull)
        case .object(let members): members.values.contains(where: \.holdsNull)
        case .bool, .number, .string: false
        }
    }
}

internal import OTAFirmware
internal import OTASigning

/// The limits of all records of a fleet.
public enum RecordLimits {
    /// The maximum size of a record, in bytes.
    public static let maximumSize = 4096
    /// The highest schema number that this version reads.
    public static let schema = 1
}

/// The members of a record as JSON. If this version of otaflash writes a record again, members that it does not know stay in the record.
struct RecordFields: Sendable, Hashable {
    private var members: [JSON.Member]
    /// The kind of the record, for messages.
    private let what: String

    /// Creates a record with only its schema number.
    init(new what: String) {
        self.what = what
        members = [JSON.Member("schema", .number("\(RecordLimits.schema)"))]
    }

    /// Parses a record.
    ///
    /// - Throws: `record-too-large`, `record-malformed`; `too-new` if the schema number is higher than `RecordLimits.schema`.
    init(parsing bytes: [UInt8], _ what: String) throws(FleetError) {
        guard bytes.count <= RecordLimits.maximumSize else { throw Self.tooLarge(what, bytes.count) }
        let json: JSON
        do throws(JSON.Malformed) { json = try JSON(parsing: bytes[...]) } catch {
            throw .malformed("\(what) is not valid JSON: \(error.reason), at byte \(error.offset)")
        }
        guard let members = json.members else { throw .malformed("\(what) is not a JSON object") }
        self.what = what
        self.members = members
        guard let schema = try integer("schema"), schema >= 1 else { throw .malformed("\(what) has no schema number") }
        guard schema <= RecordLimits.schema else {
            throw FleetError(
                .tooNew, "\(what) has the schema \(schema); this otaflash supports up to \(RecordLimits.schema)",
                hint: "install a newer otaflash")
        }
    }

    /// Parses an object inside a record. Such an object has no schema number.
    init(_ json: JSON, _ what: String) throws(FleetError) {
        guard let members = json.members else { throw .malformed("\(what) is not a JSON object") }
        self.what = what
        self.members = members
    }

    /// Returns the record as JSON in UTF-8, on one line.
    ///
    /// - Throws: `record-too-large`.
    func encoded() throws(FleetError) -> [UInt8] {
        let text = object.text
        guard text.count <= RecordLimits.maximumSize else { throw Self.tooLarge(what, text.count) }
        return text
    }

    private static func tooLarge(_ what: String, _ count: Int) -> FleetError {
        FleetError(.tooLarge, "\(what) has \(count) bytes; the limit is \(RecordLimits.maximumSize)")
    }

    var object: JSON { .object(members) }

    // MARK: - Reading. An absent member is nil. A member of another type, such as null, is an error.

    func json(_ name: String) -> JSON? { object[name] }

    func text(_ name: String) throws(FleetError) -> String? {
        guard let value = json(name) else { return nil }
        guard let text = value.string else { throw wrong(name, "a text") }
        return text
    }

    func integer(_ name: String) throws(FleetError) -> Int? {
        guard let value = json(name) else { return nil }
        guard case .number(let digits) = value, let number = Int(digits), number >= 0, "\(number)" == digits else {
            throw wrong(name, "a whole number, 0 or more")
        }
        return number
    }

    /// Returns the value of a member that is a string. `parse` converts the string, and returns nil if the string is invalid.
    func value<Value>(_ name: String, _ parse: (String) -> Value?) throws(FleetError) -> Value? {
        guard let text = try text(name) else { return nil }
        guard let value = parse(text) else { throw wrong(name, "a valid \(name)") }
        return value
    }

    func list<Value>(_ name: String, _ parse: (String) -> Value?) throws(FleetError) -> [Value]? {
        guard let value = json(name) else { return nil }
        guard let elements = value.array else { throw wrong(name, "a list") }
        var list: [Value] = []
        for element in elements {
            guard let item = element.string.flatMap(parse) else { throw wrong(name, "a list of valid texts") }
            list.append(item)
        }
        return list
    }

    func fields(_ name: String) throws(FleetError) -> RecordFields? {
        guard let value = json(name) else { return nil }
        return try RecordFields(value, "'\(name)' of \(what)")
    }

    func required<Value>(_ name: String, _ value: Value?) throws(FleetError) -> Value {
        guard let value else { throw .malformed("\(what) has no '\(name)'") }
        return value
    }

    func wrong(_ name: String, _ expected: String) -> FleetError {
        .malformed("'\(name)' of \(what) is not \(expected)")
    }

    // MARK: - Writing

    /// Sets a member, or removes it if `value` is nil. A member that already exists keeps its place in the object.
    mutating func set(_ name: String, _ value: JSON?) {
        let index = members.firstIndex { $0.name.utf8.elementsEqual(name.utf8) }
        guard let value else {
            if let index { members.remove(at: index) }
            return
        }
        if let index { members[index] = JSON.Member(name, value) } else { members.append(JSON.Member(name, value)) }
    }

    func removing(_ names: [String]) -> RecordFields {
        var fields = self
        fields.members.removeAll { member in names.contains { $0.utf8.elementsEqual(member.name.utf8) } }
        return fields
    }

    mutating func set(_ name: String, _ text: String?) { set(name, text.map { JSON.string($0) }) }
    mutating func set(_ name: String, _ number: Int?) { set(name, number.map { JSON.number("\($0)") }) }
    mutating func set(_ name: String, _ value: (some FleetName)?) { set(name, value?.text) }
    mutating func set(_ name: String, _ time: Timestamp?) { set(name, time?.description) }
    mutating func set(_ name: String, _ texts: [String]) { set(name, JSON.array(texts.map { .string($0) })) }
    mutating func set(_ name: String, _ fields: RecordFields?) { set(name, fields?.object) }

    /// Creates the fields of a new object inside a record. Such an object has no schema number.
    static func nested(_ what: String) -> RecordFields {
        var fields = RecordFields(new: what)
        fields.members = []
        return fields
    }
}

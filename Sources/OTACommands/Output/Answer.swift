import FoundationEssentials

/// What a command answers with: one value, which is rendered in one place.
///
/// Encoded it is the members that it adds to the JSON object on stdout (docs/command-line.md, "JSON results, schema 1").
protocol Answer: Encodable, Sendable {
    /// For people: lines without the last line feed; empty: all has been said.
    var text: String { get }
    /// What is told besides, where the answer is that something does not work.
    var failure: Failure? { get }
}

extension Answer {
    var failure: Failure? { nil }
}

/// The JSON object on stdout.
struct JSONObject<Members: Encodable>: Encodable {
    private static var schema: Int { 1 }

    let command: String
    let exit: ExitStatus
    let members: Members
    var failure: JSONFailure?

    private enum CodingKeys: String, CodingKey {
        case schema, command, ok, exit
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(Self.schema, forKey: .schema)
        try container.encode(command, forKey: .command)
        try container.encode(exit == .done, forKey: .ok)
        try container.encode(exit.rawValue, forKey: .exit)
        try members.encode(to: encoder)
        try failure?.encode(to: encoder)
    }
}

/// What a failure adds to the JSON object.
struct JSONFailure: Encodable {
    struct Details: Encodable {
        let code, message, hint: String
    }
    let error: Details

    init(_ failure: Failure) {
        error = Details(code: failure.code, message: failure.message, hint: failure.hint)
    }
}

enum JSON {
    /// One line, its members sorted by name; a member without a value is absent.
    static func line(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }
}

import FoundationEssentials
import OTAFirmware

/// What a command answers with: one value, which is rendered in one place.
///
/// Encoded it is the members that it adds to the JSON object on stdout (docs/command-line.md, "JSON results, schema 1").
protocol Answer: Encodable, Sendable {
    /// For people; empty: everything was written already.
    var lines: [TerminalLine] { get }
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

/// One JSON object on one line, its members sorted by name; a member without a value is absent.
package struct JSONLine: Sendable {
    package let text: String

    package init(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        text = Self.escaped(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// JSON demands escapes for C0 controls only (RFC 8259, 7), and a terminal may show the line. All else is escaped here: outside of
    /// strings JSON has no such scalar.
    private static func escaped(_ json: String) -> String {
        guard !json.isPrintable else { return json }
        var text = ""
        for scalar in json.unicodeScalars {
            if scalar.isUnprintable {
                for unit in String(scalar).utf16 { text += "\\u" + Hex.encode([UInt8(unit >> 8), UInt8(unit & 0xFF)]) }
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

import FoundationEssentials
import OTAFirmware

/// The result of a command. `Console` prints the result as text or JSON.
///
/// The encoded members become part of the JSON object on stdout (docs/command-line.md, "JSON results, schema 1").
package protocol CommandAnswer: Encodable, Sendable {
    /// The complete result as text. Empty if the command has already printed its result.
    var lines: [TerminalLine] { get }
    /// Returns the result as text for a terminal with this width in columns. The tables in it fit the width if possible.
    func lines(fitting width: Int) -> [TerminalLine]
    /// The failure to report after the result, for example of a failed check; nil if the command succeeded.
    var failure: Failure? { get }
    /// True if the result itself encodes the member `device`, with more data than the address.
    var describesDevice: Bool { get }
    /// The test cases of a JUnit report; nil: one test case for each phase of the command.
    var testCases: [JUnitReport.Case]? { get }
}

extension CommandAnswer {
    package func lines(fitting width: Int) -> [TerminalLine] { lines }
    package var failure: Failure? { nil }
    package var describesDevice: Bool { false }
    package var testCases: [JUnitReport.Case]? { nil }
}

/// The result of a command whose results have several types.
struct AnyAnswer: CommandAnswer {
    let answer: any CommandAnswer

    init(_ answer: any CommandAnswer) { self.answer = answer }

    var lines: [TerminalLine] { answer.lines }
    func lines(fitting width: Int) -> [TerminalLine] { answer.lines(fitting: width) }
    var failure: Failure? { answer.failure }
    var describesDevice: Bool { answer.describesDevice }
    var testCases: [JUnitReport.Case]? { answer.testCases }

    func encode(to encoder: any Encoder) throws { try answer.encode(to: encoder) }
}

/// A result with a table.
package protocol TableAnswer: CommandAnswer {
    /// Returns the result as text.
    ///
    /// - Parameter width: the width of the terminal in columns; nil: no terminal, so nothing is shortened.
    func text(fitting width: Int?) -> [TerminalLine]
}

extension TableAnswer {
    package var lines: [TerminalLine] { text(fitting: nil) }
    package func lines(fitting width: Int) -> [TerminalLine] { text(fitting: width) }
}

/// The JSON object on stdout with the result of a command.
struct JSONObject<Members: Encodable>: Encodable {
    private static var schema: Int { 1 }

    let command: String
    /// The address of the device, as the user gave it; nil if the command has no device, or if `members` contains the member `device`.
    let device: String?
    let exit: ExitStatus
    let warnings: [String]
    let members: Members
    var failure: JSONFailure?

    private enum CodingKeys: String, CodingKey {
        case schema, command, ok, exit, device, warnings
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(Self.schema, forKey: .schema)
        try container.encode(command, forKey: .command)
        try container.encode(exit == .done, forKey: .ok)
        try container.encode(exit.rawValue, forKey: .exit)
        try container.encodeIfPresent(device.map { GivenDevice(given: $0) }, forKey: .device)
        if !warnings.isEmpty { try container.encode(warnings, forKey: .warnings) }
        try members.encode(to: encoder)
        try failure?.encode(to: encoder)
    }
}

/// The member `device` if only the address of the device is known: in an event, in a failure, and in a result without data about the
/// device. In other results, a `DeviceSummary` is the member `device`. It has a member `given`, too.
struct GivenDevice: Encodable {
    /// The address that the user gave.
    let given: String
}

/// The members that a failure adds to the JSON object on stdout.
struct JSONFailure: Encodable {
    struct Details: Encodable {
        let code, message, hint: String
    }
    let error: Details

    init(_ failure: Failure) {
        error = Details(code: failure.code, message: failure.message, hint: failure.hint)
    }
}

/// A JSON object on one line. Its members are sorted by name. Members without a value are absent.
package struct JSONLine: Sendable {
    package let text: String

    package init(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        text = Self.escaped(String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// Escapes all unprintable Unicode scalars, because a terminal may show the line. JSON requires escapes only for C0 control characters
    /// (RFC 8259, section 7). Unprintable scalars can occur only inside JSON strings, where JSON allows the escape `\uXXXX`.
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

internal import OTAFirmware

/// A JSON value (RFC 8259). The envelopes and statements of attestations are JSON.
///
/// The parser refuses an object that contains a name twice, because two programs could use different members of the object. The decoders of
/// Foundation accept such an object, so this module has its own parser. A number is stored as its text, so that a copy of the number has
/// the same digits.
package enum JSON: Sendable, Hashable {
    case null
    case bool(Bool)
    /// A number, as its text.
    case number(String)
    case string(String)
    case array([JSON])
    /// The members of the object, in the same order as in the JSON text. Each name occurs once.
    case object([Member])

    package struct Member: Sendable, Hashable {
        package let name: String
        package let value: JSON

        package init(_ name: String, _ value: JSON) {
            self.name = name
            self.value = value
        }
    }

    /// Parses a text that contains exactly one value.
    ///
    /// - Throws: `JSON.Malformed` for a text that is not JSON in UTF-8, for a name that occurs twice in an object, and for a text that
    ///   exceeds `maximumDepth` or `maximumCount`.
    package init(parsing text: ArraySlice<UInt8>) throws(Malformed) {
        var parser = JSONParser(text)
        self = try parser.parse()
    }

    /// The reason why the parser does not accept a text.
    package struct Malformed: Error, Sendable, Equatable {
        /// The offset of the error in the text, in bytes.
        package let offset: Int
        package let reason: String
    }

    /// The maximum depth of nested arrays and objects.
    package static let maximumDepth = 64
    /// The maximum number of values in a text, including the values inside arrays and objects. This number limits the memory that the
    /// parsed values need.
    package static let maximumCount = 1 << 20

    /// The value of the member with this name. The result is nil if this JSON value is not an object, or if the object does not contain the
    /// name.
    ///
    /// The names are compared as bytes, because in a comparison of Swift strings the Kelvin sign is equal to `K` (canonical equivalence).
    package subscript(name: String) -> JSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name.utf8.elementsEqual(name.utf8) }?.value
    }

    package var string: String? { if case .string(let text) = self { text } else { nil } }
    package var array: [JSON]? { if case .array(let elements) = self { elements } else { nil } }
    package var members: [Member]? { if case .object(let members) = self { members } else { nil } }

    /// The value as a text on one line, in UTF-8.
    package var text: [UInt8] {
        var text: [UInt8] = []
        write(to: &text)
        return text
    }

    private func write(to text: inout [UInt8]) {
        switch self {
        case .null: text += "null".utf8
        case .bool(let value): text += "\(value)".utf8
        case .number(let number): text += number.utf8
        case .string(let value): Self.write(value, to: &text)
        case .array(let elements):
            text.append(UInt8(ascii: "["))
            for (index, element) in elements.enumerated() {
                if index > 0 { text.append(UInt8(ascii: ",")) }
                element.write(to: &text)
            }
            text.append(UInt8(ascii: "]"))
        case .object(let members):
            text.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { text.append(UInt8(ascii: ",")) }
                Self.write(member.name, to: &text)
                text.append(UInt8(ascii: ":"))
                member.value.write(to: &text)
            }
            text.append(UInt8(ascii: "}"))
        }
    }

    private static func write(_ string: String, to text: inout [UInt8]) {
        text.append(UInt8(ascii: "\""))
        for byte in string.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): text += [UInt8(ascii: "\\"), byte]
            case 0..<0x20: text += "\\u00\(Hex.encode([byte]))".utf8
            default: text.append(byte)
            }
        }
        text.append(UInt8(ascii: "\""))
    }
}

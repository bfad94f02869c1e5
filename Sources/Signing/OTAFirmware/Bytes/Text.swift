extension UInt8 {
    /// Whether the byte is one of A–Z, a–z and 0–9 in ASCII.
    var isASCIILetterOrDigit: Bool {
        switch self {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}

extension Unicode.Scalar {
    /// True if the scalar can be a part of a command to a terminal, or can be invisible on a terminal.
    ///
    /// These scalars have the general category Cc, Cf (for example bidirectional controls), Zl or Zp, or the property
    /// `Default_Ignorable_Code_Point` (Unicode Standard Annex 44).
    package var isUnprintable: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: properties.isDefaultIgnorableCodePoint
        }
    }
}

extension String {
    /// Whether the text contains no unprintable scalar (`isUnprintable`).
    package var isPrintable: Bool { !unicodeScalars.contains(where: \.isUnprintable) }

    /// The text with an escape, such as `\n` or `\u{1B}`, in place of each unprintable scalar. The result has one line.
    package var escapingUnprintable: String {
        guard !isPrintable else { return self }
        var text = ""
        for scalar in unicodeScalars {
            if scalar.isUnprintable {
                text += scalar.escaped(asASCII: true)
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}

/// Decodes untrusted bytes as text. Returns nil if the bytes are not valid UTF-8, or contain a control character.
///
/// A command to a terminal begins with a control character, so the result cannot contain such a command.
package func harmlessText(_ bytes: some Collection<UInt8>) -> String? {
    guard let text = String(validating: bytes, as: UTF8.self),
        !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
    else { return nil }
    return text
}

/// Formats untrusted bytes for the user. Printable ASCII characters are unchanged, except that `\` becomes `\\` and `"` becomes `\"`.
/// All other bytes become `\xNN`.
func escaped(_ bytes: some Collection<UInt8>) -> String {
    bytes.map { byte in
        switch byte {
        case UInt8(ascii: "\\"), UInt8(ascii: "\""): "\\" + String(UnicodeScalar(byte))
        case 0x20...0x7E: String(UnicodeScalar(byte))
        default: "\\x" + Hex.encode([byte])
        }
    }.joined()
}

/// Formats at most the first 80 of the untrusted bytes, in quotation marks. If there are more bytes, the total number of bytes follows.
func quoted(_ bytes: some Collection<UInt8>) -> String {
    "\"" + escaped(bytes.prefix(80)) + "\"" + (bytes.count > 80 ? "… (\(bytes.count) bytes)" : "")
}

/// Converts between bytes and hex digits.
public enum Hex {
    /// Returns two lower-case digits for each byte.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// Decodes lower-case or upper-case hex digits to bytes. Returns nil if `text` has an odd number of characters, or a character that is
    /// not a hex digit.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var bytes: [UInt8] = []
        var high: UInt8?
        for character in text.utf8 {
            guard let digit = value(ofDigit: character) else { return nil }
            if let first = high {
                bytes.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        return high == nil ? bytes : nil
    }

    /// Returns the value of an ASCII hex digit; nil for every other character.
    @inline(__always)
    static func value(ofDigit character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): character - UInt8(ascii: "A") + 10
        default: nil
        }
    }

    private static let digits = Array("0123456789abcdef".utf8)
}

/// Parses numbers in the format of imgtool (MCUboot's signing tool): decimal, or with the prefix 0x, 0o or 0b.
package enum Numeral {
    /// Returns the value of the text; nil if the text is not a number or the value is not in `range`.
    package static func value<Integer: FixedWidthInteger & UnsignedInteger>(
        _ text: String, in range: ClosedRange<Integer>
    ) -> Integer? {
        let radices = ["0x": 16, "0o": 8, "0b": 2]
        let radix = radices[text.prefix(2).lowercased()]
        let digits = radix == nil ? text[...] : text.dropFirst(2)
        // `Integer(_:radix:)` accepts a sign even for unsigned types: `+1` and `-0`. This function refuses a sign.
        guard let first = digits.first, first != "+", first != "-", let value = Integer(digits, radix: radix ?? 10),
            range.contains(value)
        else {
            return nil
        }
        return value
    }
}

extension UInt8 {
    /// A–Z, a–z, 0–9.
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
    /// Whether a terminal acts on the scalar or shows nothing for it: C0 and C1 controls, DEL, line and paragraph separators,
    /// bidirectional controls, and all other invisible characters (`Default_Ignorable_Code_Point`, Unicode Standard Annex 44).
    package var isUnprintable: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: true
        default: properties.isDefaultIgnorableCodePoint
        }
    }
}

extension String {
    /// Whether the text holds no unprintable scalar.
    package var isPrintable: Bool { !unicodeScalars.contains(where: \.isUnprintable) }

    /// The text on one line, with each unprintable scalar as an escape such as `\n` or `\u{1B}`.
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

/// Text from foreign bytes: nil unless they are UTF-8 without control characters, so that showing it cannot speak to a
/// terminal.
package func harmlessText(_ bytes: some Collection<UInt8>) -> String? {
    guard let text = String(validating: bytes, as: UTF8.self),
        !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control })
    else { return nil }
    return text
}

/// Foreign bytes for people, whatever they are: printable ASCII as it is, all else as `\xNN`.
func escaped(_ bytes: some Collection<UInt8>) -> String {
    bytes.map { byte in
        switch byte {
        case UInt8(ascii: "\\"), UInt8(ascii: "\""): "\\" + String(UnicodeScalar(byte))
        case 0x20...0x7E: String(UnicodeScalar(byte))
        default: "\\x" + Hex.encode([byte])
        }
    }.joined()
}

/// Foreign bytes in quotation marks, cut after 80.
func quoted(_ bytes: some Collection<UInt8>) -> String {
    "\"" + escaped(bytes.prefix(80)) + "\"" + (bytes.count > 80 ? "… (\(bytes.count) bytes)" : "")
}

/// Bytes as hex digits.
public enum Hex {
    /// Two lower-case digits a byte.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    /// Nil unless `text` is an even number of digits, lower or upper case, and nothing else.
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

    /// The value of an ASCII hex digit.
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

/// Parses one JSON text. `JSON` documents the limits.
struct JSONParser {
    private let text: ArraySlice<UInt8>
    private var index: Int
    private var depth = 0
    private var count = 0

    init(_ text: ArraySlice<UInt8>) {
        self.text = text
        index = text.startIndex
    }

    mutating func parse() throws(JSON.Malformed) -> JSON {
        let value = try value()
        skipSpace()
        guard index == text.endIndex else { throw malformed("unexpected bytes after the value") }
        return value
    }

    private var next: UInt8? { index < text.endIndex ? text[index] : nil }

    private func malformed(_ reason: String) -> JSON.Malformed {
        JSON.Malformed(
            offset: index - text.startIndex, reason: index == text.endIndex ? "unexpected end of the text" : reason)
    }

    private mutating func skipSpace() {
        while let byte = next, byte == 0x20 || (0x09...0x0A).contains(byte) || byte == 0x0D { index += 1 }
    }

    /// Consumes `byte` if it is the next byte.
    private mutating func consume(_ byte: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: byte) else { return false }
        index += 1
        return true
    }

    private mutating func value() throws(JSON.Malformed) -> JSON {
        count += 1
        guard count <= JSON.maximumCount else { throw malformed("more than \(JSON.maximumCount) values") }
        skipSpace()
        switch next {
        case UInt8(ascii: "{"):
            return try nested { (parser: inout JSONParser) throws(JSON.Malformed) in try parser.object() }
        case UInt8(ascii: "["):
            return try nested { (parser: inout JSONParser) throws(JSON.Malformed) in try parser.array() }
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case .some(UInt8(ascii: "-")), .some(UInt8(ascii: "0")...UInt8(ascii: "9")): return try number()
        default: throw malformed("a value is missing")
        }
    }

    private mutating func nested(
        _ parse: (inout JSONParser) throws(JSON.Malformed) -> JSON
    ) throws(JSON.Malformed) -> JSON {
        depth += 1
        defer { depth -= 1 }
        guard depth <= JSON.maximumDepth else { throw malformed("more than \(JSON.maximumDepth) nested values") }
        index += 1
        return try parse(&self)
    }

    private mutating func array() throws(JSON.Malformed) -> JSON {
        var elements: [JSON] = []
        skipSpace()
        if consume("]") { return .array(elements) }
        while true {
            elements.append(try value())
            skipSpace()
            if consume("]") { return .array(elements) }
            guard consume(",") else { throw malformed("expected ',' or ']'") }
        }
    }

    private mutating func object() throws(JSON.Malformed) -> JSON {
        var members: [JSON.Member] = []
        // This set contains the names as bytes, because two Swift strings with different bytes can be equal (canonical equivalence).
        var names: Set<[UInt8]> = []
        skipSpace()
        if consume("}") { return .object(members) }
        while true {
            skipSpace()
            guard next == UInt8(ascii: "\"") else { throw malformed("a name is missing") }
            let name = try string()
            guard names.insert(Array(name.utf8)).inserted else { throw malformed("a name occurs twice in an object") }
            skipSpace()
            guard consume(":") else { throw malformed("expected ':'") }
            members.append(JSON.Member(name, try value()))
            skipSpace()
            if consume("}") { return .object(members) }
            guard consume(",") else { throw malformed("expected ',' or '}'") }
        }
    }

    private mutating func word(_ word: String, _ value: JSON) throws(JSON.Malformed) -> JSON {
        guard text[index...].starts(with: word.utf8) else { throw malformed("a value is missing") }
        index += word.utf8.count
        return value
    }

    private mutating func number() throws(JSON.Malformed) -> JSON {
        let start = index
        _ = consume("-")
        if !consume("0") { try digits() }
        if consume(".") { try digits() }
        if consume("e") || consume("E") {
            if !consume("+") { _ = consume("-") }
            try digits()
        }
        return .number(String(decoding: text[start..<index], as: UTF8.self))
    }

    private mutating func digits() throws(JSON.Malformed) {
        let start = index
        while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { index += 1 }
        guard index > start else { throw malformed("a digit is missing") }
    }

    // MARK: Strings

    private mutating func string() throws(JSON.Malformed) -> String {
        index += 1
        var bytes: [UInt8] = []
        while true {
            let start = index
            while let byte = next, byte >= 0x20, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") { index += 1 }
            bytes += text[start..<index]
            if consume("\"") { break }
            guard consume("\\") else { throw malformed("a control character in a string") }
            try escape(into: &bytes)
        }
        guard let string = String(validating: bytes, as: UTF8.self) else { throw malformed("a string is not UTF-8") }
        return string
    }

    private mutating func escape(into bytes: inout [UInt8]) throws(JSON.Malformed) {
        guard let byte = next else { throw malformed("") }
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): bytes.append(byte)
        case UInt8(ascii: "b"): bytes.append(0x08)
        case UInt8(ascii: "f"): bytes.append(0x0C)
        case UInt8(ascii: "n"): bytes.append(0x0A)
        case UInt8(ascii: "r"): bytes.append(0x0D)
        case UInt8(ascii: "t"): bytes.append(0x09)
        case UInt8(ascii: "u"): bytes += String(try escapedScalar()).utf8
        default: throw malformed("an unknown escape in a string")
        }
    }

    /// Parses the digits after `\u`. For a character above U+FFFF, also parses the second `\u` escape of the surrogate pair.
    private mutating func escapedScalar() throws(JSON.Malformed) -> Unicode.Scalar {
        let first = try codeUnit()
        if let scalar = Unicode.Scalar(first) { return scalar }
        guard first < 0xDC00, consume("\\"), consume("u"), case let second = try codeUnit(),
            (0xDC00...0xDFFF).contains(second),
            let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
        else { throw malformed("half of a surrogate pair in a string") }
        return scalar
    }

    private mutating func codeUnit() throws(JSON.Malformed) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = next, let digit = UInt32(String(UnicodeScalar(byte)), radix: 16) else {
                throw malformed("\\u without four hexadecimal digits")
            }
            value = value << 4 | digit
            index += 1
        }
        return value
    }
}

import OTASigning
import Testing

@Suite("JSON of attestations (RFC 8259)") struct JSONTests {
    private func parse(_ bytes: [UInt8]) throws(JSON.Malformed) -> JSON { try JSON(parsing: bytes[...]) }

    private func text(_ json: JSON) -> String { String(decoding: json.text, as: UTF8.self) }

    @Test(
        "a valid text is written again with the same values, and each number keeps its digits",
        arguments: [
            ("null", "null"), (" [ true , false ]\r\n", "[true,false]"), ("{}", "{}"), ("[]", "[]"),
            (
                "[0,-0,1.50,1e400,-1E-7,123456789012345678901234567890]",
                "[0,-0,1.50,1e400,-1E-7,123456789012345678901234567890]"
            ),
            (#""\"\\\/\b\f\n\r\t\u0041\u00e9""#, #""\"\\/\u0008\u000c\u000a\u000d\u0009Aé""#),
            (#""\ud83d\ude00""#, "\"\u{1F600}\""), (#"{"b":1,"a":{"b":2}}"#, #"{"b":1,"a":{"b":2}}"#),
            (#"{"é":1,"e\u0301":2}"#, "{\"é\":1,\"e\u{301}\":2}"),
        ])
    func accepts(text: String, written: String) throws {
        let json = try parse(Array(text.utf8))
        #expect(Array(self.text(json).utf8) == Array(written.utf8))
        #expect(try parse(json.text) == json)
    }

    @Test(
        "a text that is not JSON is refused",
        arguments: [
            "", " ", "{", "[", "\"", "[1", "[1,", "[1,]", "[,1]", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}",
            "{a:1}", "{1:2}",
            "01", "1.", ".5", "+1", "-", "1e", "1e+", "0x10", "NaN", "Infinity", "nul", "tru", "True", "1 2", "{}{}",
            "[] ,",
            "\"a\nb\"", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", #""\ud800""#, #""\ud800\u0041""#, #""\udc00""#,
            #""\ud83d"#, "'a'",
            "\u{FEFF}{}", "// a\n1", "[1]x", "\u{A0}1",
        ])
    func refuses(text: String) {
        #expect(throws: JSON.Malformed.self) { try parse(Array(text.utf8)) }
    }

    @Test(
        "a string that is not UTF-8 is refused", arguments: [[0xFF], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xE2, 0x82]])
    func refusesInvalidUTF8(bytes: [UInt8]) {
        #expect(throws: JSON.Malformed.self) { try parse([0x22] + bytes + [0x22]) }
    }

    @Test("an object with the same name twice is refused, at any depth and with any escapes")
    func refusesDuplicates() throws {
        for text in [#"{"a":1,"a":1}"#, #"{"a":1,"\u0061":2}"#, #"[{"b":{"a":1,"c":2,"a":3}}]"#, #"{"":1,"":2}"#] {
            let error = #expect(throws: JSON.Malformed.self) { try parse(Array(text.utf8)) }
            #expect(error?.reason == "a name occurs twice in an object")
        }
    }

    @Test("a name is compared as bytes: the Kelvin sign is not K")
    func comparesNamesAsBytes() throws {
        let json = try parse(Array("{\"\u{212A}\":1,\"K\":2}".utf8))
        #expect(json["K"] == .number("2"))
    }

    @Test("more nested values, or more values, than the limits are refused without a crash")
    func limits() throws {
        func nested(_ depth: Int) -> [UInt8] {
            [UInt8](repeating: UInt8(ascii: "["), count: depth) + [UInt8](repeating: UInt8(ascii: "]"), count: depth)
        }
        _ = try parse(nested(JSON.maximumDepth))
        #expect(throws: JSON.Malformed.self) { try parse(nested(JSON.maximumDepth + 1)) }
        #expect(throws: JSON.Malformed.self) { try parse([UInt8](repeating: UInt8(ascii: "["), count: 1 << 20)) }
        func array(_ count: Int) -> [UInt8] {
            Array("[".utf8) + Array(repeating: Array("1,".utf8), count: count - 1).joined() + Array("1]".utf8)
        }
        _ = try parse(array(JSON.maximumCount - 1))
        let error = #expect(throws: JSON.Malformed.self) { try parse(array(JSON.maximumCount)) }
        #expect(error?.reason == "more than \(JSON.maximumCount) values")
    }
}

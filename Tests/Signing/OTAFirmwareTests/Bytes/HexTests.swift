import OTAFirmware
import Testing

@Suite("Hex digits") struct HexTests {
    /// The values are from RFC 4648, section 10.
    @Test(
        "hex digits are encoded in lower case and decoded in both cases",
        arguments: [("", ""), ("f", "66"), ("fo", "666f"), ("foobar", "666f6f626172")])
    func knownValues(text: String, digits: String) {
        #expect(Hex.encode(text.utf8) == digits)
        #expect(Hex.decode(digits) == Array(text.utf8))
        #expect(Hex.decode(digits.uppercased()) == Array(text.utf8))
    }

    @Test("each byte is decoded to its original value")
    func everyByte() {
        let bytes = Array(UInt8.min...UInt8.max)
        #expect(Hex.decode(Hex.encode(bytes)) == bytes)
    }

    @Test(
        "text that is not an even number of hex digits is refused",
        arguments: ["0", "000", "0g", "0x00", " 00", "00\n", "+1", "é0", "０0"])
    func wrongTextIsRefused(text: String) {
        #expect(Hex.decode(text) == nil)
    }
}

/// imgtool parses its numbers with Python's `int(text, 0)`.
@Suite("Numbers in imgtool's format") struct NumeralTests {
    @Test(
        "a decimal number or a number with a prefix is parsed",
        arguments: [("32", 32), ("0x20", 32), ("0O40", 32), ("0b100000", 32)])
    func numbers(text: String, value: UInt32) {
        #expect(Numeral.value(text, in: 0...UInt32.max) == value)
    }

    @Test("a number with a sign is refused", arguments: ["+1", "0x+1", "-0", "0x-0", "0b-0", "-1"])
    func signs(text: String) {
        #expect(Numeral.value(text, in: 0...UInt32.max) == nil)
    }
}

import OTAFirmware
import OTASMP
import Testing

@Suite("CBOR encoder") struct CBOREncoderTests {
    @Test(
        "the encoder writes the examples of RFC 8949, appendix A",
        arguments: [
            ("00", CBORValue.unsigned(0)), ("17", .unsigned(23)), ("1818", .unsigned(24)), ("18ff", .unsigned(255)),
            ("190100", .unsigned(256)), ("1a00010000", .unsigned(65536)),
            ("1b000000e8d4a51000", .unsigned(1_000_000_000_000)),
            ("20", .negative(0)), ("3903e7", .negative(999)), ("f4", .bool(false)), ("f5", .bool(true)), ("f6", .null),
            ("4401020304", .bytes([1, 2, 3, 4])), ("6449455446", .text("IETF")),
            ("83010203", .array([1, 2, 3].map { CBORValue($0) })),
            ("a26161016162820203", .map(["b": .array([CBORValue(2), CBORValue(3)]), "a": CBORValue(1)])),
        ])
    func writesAsTheStandardHasIt(hex: String, value: CBORValue) {
        #expect(Hex.encode(CBOREncoder.encode(value)) == hex)
    }

    // Source: RFC 7049, section 3.9.
    @Test("shorter keys come first, and keys of the same length are sorted by byte")
    func sortsKeys() {
        let fields: [String: CBORValue] = ["data": .null, "off": .null, "len": .null, "image": .null, "sha": .null]
        #expect(
            Hex.encode(CBOREncoder.encode(.map(fields))) == "a5636c656ef6636f6666f663736861f66464617461f665696d616765f6"
        )
    }
}

import OTAFirmware
import OTASMP
import OTAUpdate
import Testing

@Suite("CBOR decoder") struct CBORDecoderTests {
    // Source: RFC 8949, appendix A, with the types that SMP uses.
    static let examples: [(String, CBORValue)] = [
        ("00", .unsigned(0)), ("17", .unsigned(23)), ("1818", .unsigned(24)), ("1903e8", .unsigned(1000)),
        ("1a000f4240", .unsigned(1_000_000)), ("1b000000e8d4a51000", .unsigned(1_000_000_000_000)),
        ("1bffffffffffffffff", .unsigned(.max)), ("3bffffffffffffffff", .negative(.max)), ("20", .negative(0)),
        ("3863", .negative(99)), ("3903e7", .negative(999)), ("f90000", .float(0)), ("f93c00", .float(1)),
        ("fb3ff199999999999a", .float(1.1)), ("f97bff", .float(65504)), ("fa47c35000", .float(100_000)),
        ("f4", .bool(false)), ("f5", .bool(true)), ("f6", .null), ("f7", .null), ("40", .bytes([])),
        ("4401020304", .bytes([1, 2, 3, 4])), ("60", .text("")), ("6449455446", .text("IETF")),
        ("62c3bc", .text("ü")), ("80", .array([])), ("83010203", .array([.unsigned(1), .unsigned(2), .unsigned(3)])),
        ("a0", .map([:])),
        ("a26161016162820203", .map(["a": .unsigned(1), "b": .array([.unsigned(2), .unsigned(3)])])),
        ("5f42010243030405ff", .bytes([1, 2, 3, 4, 5])), ("7f657374726561646d696e67ff", .text("streaming")),
        ("9fff", .array([])),
        (
            "9f018202039f0405ffff",
            .array([
                .unsigned(1), .array([.unsigned(2), .unsigned(3)]), .array([.unsigned(4), .unsigned(5)]),
            ])
        ),
        ("bf61610161629f0203ffff", .map(["a": .unsigned(1), "b": .array([.unsigned(2), .unsigned(3)])])),
        ("bf6346756ef563416d7421ff", .map(["Fun": .bool(true), "Amt": .negative(1)])),
        // One character is split over two chunks.
        ("7f61c361bcff", .text("ü")),
    ]

    @Test("the decoder reads the examples of RFC 8949, appendix A")
    func readsTheExamplesOfTheStandard() throws {
        for (hex, value) in Self.examples {
            #expect(try CBORDecoder.decode(try #require(Hex.decode(hex))) == value, "\(hex)")
        }
    }

    @Test(
        "CBOR that is malformed, nested too deep or not used by SMP is refused",
        arguments: [
            "", "18", "1903", "a1", "a16161", "bf6161", "bf616101", "9f01", "44010203", "5f4201", "7f", "ff", "81ff",
            "a1ff01", "bf6161ffff", "1c", "fc", "f8ff", "0000", "a000", "bf6161016161 02ff", "a10102", "5f6161ff",
            "7f4161ff",
            "61ff", "c100", "d9d9f7a0", "9bffffffffffffffff", "bb7fffffffffffffff", "5bffffffffffffffff",
            "818181818181818180", "9f9f9f9f9f9f9f9f9fff", "bfa000ff", "5f5f4101ffff",
        ])
    func refuses(hex: String) throws {
        let bytes = try #require(Hex.decode(hex.filter { $0 != " " }))
        #expect(throws: CBORError.self) { try CBORDecoder.decode(bytes) }
    }

    @Test("more than 65,535 bytes of CBOR are refused")
    func boundsTheSize() {
        let long = [0x59, 0xFF, 0xFF] + [UInt8](repeating: 0, count: 65535)
        #expect(throws: CBORError.self) { try CBORDecoder.decode(long) }
    }

    // Each decoded value is encoded and decoded again. Both values must be equal.
    @Test("random bytes give an error, or a value that survives encoding and decoding")
    func takesAnyBytes() throws {
        var random = SplitMix64(seed: 8949)
        let heads: [UInt8] = [
            0xBF, 0x9F, 0xFF, 0xA1, 0xA2, 0x61, 0x62, 0x42, 0x5F, 0x7F, 0x01, 0x18, 0xF9, 0xFB, 0x61, 0x41,
        ]
        var read = 0
        for _ in 0..<100_000 {
            let bytes = (0..<Int.random(in: 0...24, using: &random)).map { _ in
                Bool.random(using: &random)
                    ? UInt8.random(in: 0...255, using: &random) : heads[Int.random(in: 0..<heads.count, using: &random)]
            }
            guard let value = try? CBORDecoder.decode(bytes), !"\(value)".contains("nan") else { continue }
            read += 1
            #expect(try CBORDecoder.decode(CBOREncoder.encode(value)) == value)
        }
        #expect(read > 1000)
    }
}

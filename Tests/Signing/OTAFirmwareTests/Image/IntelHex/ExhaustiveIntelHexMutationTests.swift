import OTAFirmware
import OTATestSupport
import OTAUpdate
import Testing

/// Each record of Intel HEX has an 8-bit checksum. It detects each wrong bit and most other errors.
///
/// The signed digest of the image covers the bytes after an undetected error.
@Suite("Damaged Intel HEX text") struct ExhaustiveIntelHexMutationTests {
    private static let text = Array(
        """
        :020000040800F2
        :10000000000102030405060708090A0B0C0D0E0F78
        :10001000101112131415161718191A1B1C1D1E1F68
        :04002000DEADBEEFA4
        :0400000508000000EF
        :00000001FF

        """.utf8)

    @Test("Intel HEX text with one wrong bit is refused or gives the same image")
    func everyBit() throws {
        let original = try HexImage(parsing: Self.text)
        #expect(original.bytes.count == 36)
        var refused = 0
        for bit in 0..<8 * Self.text.count {
            var forged = Self.text
            forged[bit / 8] ^= 1 << UInt8(bit % 8)
            guard let hex = try? HexImage(parsing: forged) else {
                refused += 1
                continue
            }
            #expect(hex == original, "bit \(bit): \(String(decoding: forged, as: UTF8.self))")
        }
        #expect(refused > 7 * Self.text.count)
    }

    @Test("most of 10,000 mutations of Intel HEX text are refused")
    func tenThousandFiles() throws {
        let original = try HexImage(parsing: Self.text)
        var random = SplitMix64(seed: 4)
        var (refused, others) = (0, 0)
        for _ in 0..<10_000 {
            guard let hex = try? HexImage(parsing: random.mutation(of: Self.text)) else {
                refused += 1
                continue
            }
            if hex != original { others += 1 }
        }
        #expect(refused > 5000 && others < 500)
    }
}

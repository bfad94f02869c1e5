import OTAFirmware
import OTATestSupport
import OTAUpdate
import Testing

@Suite("S-records") struct SRecordTests {
    private static let bytes = (0..<40).map { UInt8($0 * 7 % 256) }

    private func parse(_ text: String) throws(HexError) -> HexImage {
        try HexImage(parsing: Array(text.utf8), as: .sRecord)
    }

    private func refusal(_ text: String) -> HexError? { #expect(throws: HexError.self) { try parse(text) } }

    /// The output of `objcopy -I binary -O srec --change-addresses 0x0800fff0` for 40 bytes (binutils 2.40).
    private static let objcopy = """
        S00800006F2E7331397D\r
        S3150800FFF000070E151C232A31383F464D545B6269AB\r
        S3150801000070777E858C939AA1A8AFB6BDC4CBD2D999\r
        S30D08010010E0E7EEF5FC030A1115\r
        S7050800FFF003\r

        """

    /// The output of `srec_cat d.bin -binary -offset 0x10 -o s.s19 -motorola` for 40 bytes (SRecord 1.64).
    private static let srecCat = """
        S0220000687474703A2F2F737265636F72642E736F75726365666F7267652E6E65742F1D
        S123001000070E151C232A31383F464D545B626970777E858C939AA1A8AFB6BDC4CBD2D93C
        S10B0030E0E7EEF5FC030A1100
        S5030002FA

        """

    /// The output of Python's bincopy for 40 bytes at 0x10 with the header `otaflash`.
    private static let bincopy = """
        S00B00006F7461666C617368A2
        S113001000070E151C232A31383F464D545B626994
        S113002070777E858C939AA1A8AFB6BDC4CBD2D984
        S10B0030E0E7EEF5FC030A1100
        S5030003F9

        """

    /// The output of objcopy for the same bytes at 0xfff0, with 24-bit addresses.
    private static let objcopy24 = """
        S00900006F322E7331394A\r
        S21400FFF000070E151C232A31383F464D545B6269B4\r
        S21401000070777E858C939AA1A8AFB6BDC4CBD2D9A2\r
        S20C010010E0E7EEF5FC030A111E\r
        S80400FFF00C\r

        """

    @Test(
        "S-records of objcopy, srec_cat and bincopy are parsed to the original bytes",
        arguments: [(objcopy, 0x0800_FFF0), (objcopy24, 0xFFF0), (srecCat, 0x10), (bincopy, 0x10)] as [(String, UInt32)]
    )
    func otherTools(text: String, address: UInt32) throws {
        for text in [text, "\u{FEFF}" + text, text.lowercased().replacing("s", with: "S"), "# x\n\n" + text] {
            #expect(FirmwareFileKind.detect(prefix: text.utf8) == .hexText(.sRecord))
            let image = try parse(text)
            #expect(image.bytes == Self.bytes)
            #expect(image.startAddress == address)
            #expect(image.gapNote == nil)
        }
    }

    @Test(
        "invalid S-records are refused with the number of the line",
        arguments: [
            ("", .missingEnd, 1), ("S9030000FC\n", .noData, 1), ("x", .badRecord, 1), ("S", .badRecord, 1),
            ("S1\n", .badRecord, 1), ("S104000001FA\n", .missingEnd, 2),
            ("S104000001FB\nS9030000FC\n", .badChecksum, 1),
            ("S104000001FAx\n", .badRecord, 1), ("S104000001FA\nS9030000FD\n", .badChecksum, 2),
            ("S4030000FC\n", .unknownRecordType, 1), ("SA030000FC\n", .unknownRecordType, 1),
            ("S104000001FA\nS5030002FA\n", .wrongRecordCount, 2), ("S104000001FA\nS5030000FC\n", .wrongRecordCount, 2),
            ("S104000001FA\nS604000001FA\nx", .badRecord, 3),
            ("S104000001FA\nS5030001FB\nS104000102F8\n", .missingEnd, 4),
            ("S104000001FA\nS9030000FC\nS9030000FC\n", .recordAfterEnd, 3),
            ("S104000001FA\nS904000000FB\n", .badRecord, 2),
            ("S10200FD\n", .badRecord, 1), ("S304000000FB\n", .badRecord, 1), ("S100FF\n", .badRecord, 1),
            ("S104000001FA\nS104000002F9\nS9030000FC\n", .overlappingData, 2),
            ("S105FFFF0102F9\nS9030000FC\n", .badAddress, 1),
        ] as [(String, HexError.Code, Int)])
    func wrongText(text: String, code: HexError.Code, line: Int) {
        let error = refusal(text)
        #expect(error?.code == code)
        #expect(error?.line == line)
        #expect(error?.format == .sRecord)
    }

    @Test("each S-record text that ends inside its data is refused", arguments: [objcopy, srecCat, bincopy])
    func truncations(text: String) throws {
        let text = Array(text.utf8)
        let last = text.dropLast(2).lastIndex(of: 0x0A) ?? 0
        for length in 0...last {
            #expect(throws: HexError.self, "cut to \(length) bytes") {
                try HexImage(parsing: Array(text.prefix(length)), as: .sRecord)
            }
        }
    }

    @Test("an accepted mutation of S-records has the bytes of the original or other records with valid checksums")
    func mutations() throws {
        var generator = SplitMix64(seed: 5)
        let text = Array(Self.bincopy.utf8)
        var accepted = 0
        for _ in 0..<4000 {
            let mutation = generator.mutation(of: text)
            do {
                let image = try HexImage(parsing: mutation, as: .sRecord)
                #expect(image.bytes.count <= HexImage.maximumSpan)
                accepted += 1
            } catch {
                #expect((1...(mutation.count { $0 == 0x0A } + 2)).contains(error.line))
            }
        }
        #expect((1..<4000).contains(accepted))
    }
}

import OTAFirmware
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Intel HEX text") struct IntelHexTests {
    /// The output of `objcopy -I binary -O ihex --change-addresses 0x0800fff0` for 40 bytes (binutils 2.40).
    static let sample = """
        :020000040800F2\r
        :10FFF00000070E151C232A31383F464D545B6269B9\r
        :020000040801F1\r
        :1000000070777E858C939AA1A8AFB6BDC4CBD2D9A8\r
        :08001000E0E7EEF5FC030A1124\r
        :040000050800FFF000\r
        :00000001FF\r

        """

    private func parse(_ text: String) throws(HexError) -> HexImage { try HexImage(parsing: Array(text.utf8)) }

    private func refusal(_ text: String) -> HexError? { #expect(throws: HexError.self) { try parse(text) } }

    /// Returns a record with a valid checksum.
    private func record(_ type: UInt8, _ address: UInt16, _ data: [UInt8]) -> String {
        let bytes = [UInt8(data.count), UInt8(address >> 8), UInt8(address & 0xFF), type] + data
        return ":" + Hex.encode(bytes + [0 &- bytes.reduce(0, &+)]).uppercased() + "\n"
    }

    private let end = ":00000001FF\n"

    @Test("Intel HEX text of objcopy is parsed to the original bytes")
    func textOfObjcopy() throws {
        let image = try parse(Self.sample)
        #expect(image.startAddress == 0x0800_FFF0)
        #expect(image.bytes == (0..<40).map { UInt8($0 * 7 % 256) })
    }

    /// The text is the example of en.wikipedia.org/wiki/Intel_HEX.
    @Test("the published example of Intel HEX text is parsed to its bytes")
    func aKnownExample() throws {
        let image = try parse(
            """
            :10010000214601360121470136007EFE09D2190140
            :100110002146017E17C20001FF5F16002148011928
            :10012000194E79234623965778239EDA3F01B2CAA7
            :100130003F0156702B5E712B722B732146013421C7
            :00000001FF
            """)
        #expect(image.startAddress == 0x0100)
        #expect(
            image.bytes
                == (try hex(
                    """
                    214601360121470136007EFE09D21901 2146017E17C20001FF5F160021480119
                    194E79234623965778239EDA3F01B2CA 3F0156702B5E712B722B732146013421
                    """)))
    }

    @Test("case, line ends and empty lines do not change the image")
    func linesMayEndAndLookAsTheyLike() throws {
        let image = try parse(Self.sample)
        #expect(try parse(Self.sample.lowercased()) == image)
        #expect(try parse(Self.sample.replacing("\r\n", with: "\n")) == image)
        #expect(try parse(Self.sample.replacing("\r\n", with: "\r\n\r\n\n")) == image)
        #expect(try parse(String(Self.sample.dropLast())) == image)
    }

    @Test("gaps between data records contain 0xFF")
    func gapsAreErasedFlash() throws {
        let image = try parse(record(0, 0x14, [3]) + record(0, 0x10, [1, 2]) + end)
        #expect(image.startAddress == 0x10)
        #expect(image.bytes == [1, 2, 0xFF, 0xFF, 3])
    }

    @Test("an empty data record below the first data does not change the image")
    func anEmptyRecordBelowTheData() throws {
        let image = try parse(":020000040000FA\n:0400050000000000F7\n:00000001FF\n")
        #expect(image.startAddress == 5)
        #expect(image.bytes == [0, 0, 0, 0])
        #expect(try parse(":020000040000FA\n:0400050000000000F7\n:00000100FF\n:00000001FF\n") == image)
    }

    @Test("segment and linear base addresses are added to the addresses of data records")
    func segmentAndLinearBases() throws {
        #expect(try parse(record(2, 0, [0x12, 0x00]) + record(0, 0x34, [1]) + end).startAddress == 0x12034)
        #expect(try parse(record(4, 0, [0xFF, 0xFF]) + record(0, 0xFFFF, [1]) + end).startAddress == 0xFFFF_FFFF)
        // A base is valid until the next one. Records 3 and 5 contain the start address of the program, and no data.
        let text =
            record(4, 0, [0, 1]) + record(2, 0, [0, 1]) + record(3, 0, [0, 0, 0x38, 0]) + record(0, 0, [7])
            + record(5, 0, [0, 0, 0, 0xCD]) + end
        #expect(try parse(text) == (try parse(record(0, 0x10, [7]) + end)))
        // Data with a linear base may cross a boundary of 64 KiB.
        #expect(try parse(record(4, 0, [0, 1]) + record(0, 0xFFFF, [1, 2]) + end).bytes == [1, 2])
    }

    @Test(
        "invalid Intel HEX text is refused with the number of the line",
        arguments: [
            ("", .missingEnd, 1), (":020000040800F2\n", .missingEnd, 2), (":00000001FF\n", .noData, 1),
            ("x\n", .badRecord, 1), ("\n\n :00000001FE\n", .badChecksum, 3), (":\n", .badRecord, 1),
            (":0000000\n", .badRecord, 1), (":0000000x\n", .badRecord, 1), (":0000000 FF", .badRecord, 1),
            (":0100000001FE0\n:00000001FF\n", .badRecord, 1), (":0100000001FE x\n:00000001FF\n", .badRecord, 1),
            (":0100000001FE\r:00000001FF\n", .badRecord, 1), (":0200000001FE\n", .badRecord, 1),
            (":0100000001FF\n:00000001FF\n", .badChecksum, 1), (":0100000001FE\n:00000001FE\n", .badChecksum, 2),
            (":00000006FA\n", .unknownRecordType, 1), (":000000FF01\n", .unknownRecordType, 1),
            (":0100000001FE\n:00000001FF\n:00000001FF\n", .recordAfterEnd, 3),
            (":0100000001FE\n:00000001FF\n\nx", .recordAfterEnd, 4), (":0100000001FE\n:00000001FF x", .badRecord, 2),
            (":0100000100FE\n", .badRecord, 1), (":0100000200FD\n", .badRecord, 1), (":0100000400FB\n", .badRecord, 1),
            (":0300000500000000F8\n", .badRecord, 1), (":00000003FD\n", .badRecord, 1),
            (":0100000001FE\n:0100000002FD\n:00000001FF\n", .overlappingData, 2),
            (":020000000102FB\n:0100050001F9\n:0100010002FC\n:00000001FF\n", .overlappingData, 3),
            (":020000021000EC\n:02FFFF000102FD\n:00000001FF\n", .badAddress, 2),
            (":02000004FFFFFC\n:02FFFF000102FD\n:00000001FF\n", .badAddress, 2),
        ] as [(String, HexError.Code, Int)])
    func wrongText(text: String, code: HexError.Code, line: Int) {
        let error = refusal(text)
        #expect(error?.code == code)
        #expect(error?.line == line)
    }

    /// The text is like that of an nRF52 application with settings in UICR.
    @Test("data regions that are too far apart are refused with a command that extracts one region")
    func farApart() throws {
        let text =
            record(0, 0x1000, [1, 2, 3, 4]) + record(0, 0x2000, [5]) + record(4, 0, [0x10, 0x00])
            + record(0, 0x1014, [0, 0xE0, 0, 0]) + end
        let error = refusal(text)
        #expect(error?.code == .spanTooLarge)
        #expect(error?.line == 4)
        #expect(
            error?.description
                == "line 4: the data from 0x00001000 to 0x00002001 and from 0x10001014 to 0x10001018 are too far apart for "
                + "one image")
        #expect(
            error?.hint
                == "extract the application: srec_cat app.hex -intel -crop 0x00001000 0x00002001 -o image.hex -intel")
    }

    /// Two bytes, `gap` addresses apart.
    private func twoBytes(apart gap: Int) -> String {
        let last = gap + 1
        return record(0, 0, [1]) + record(4, 0, [UInt8(last >> 24), UInt8(last >> 16 & 0xFF)])
            + record(0, UInt16(last & 0xFFFF), [2]) + end
    }

    @Test("gaps of more than 4 MiB are refused if they are half of the image, and the error names the ranges")
    func largeGaps() throws {
        let limit = HexImage.maximumGap
        #expect(try parse(twoBytes(apart: limit)).bytes.count == limit + 2)
        let error = refusal(twoBytes(apart: limit + 1))
        #expect(error?.code == .spanTooLarge)
        #expect(error?.message.contains("from 0x00000000 to 0x00000001 and from 0x00400002 to 0x00400003") == true)
    }

    @Test("an image with more bytes in gaps than in data has a note with the ranges")
    func noteAboutGaps() throws {
        #expect(try parse(record(0, 0, [1, 2]) + record(0, 3, [4]) + end).gapNote == nil)
        #expect(try parse(record(0, 0, [1]) + record(0, 3, [4]) + end).gapNote != nil)
        #expect(
            try parse(twoBytes(apart: 8190)).gapNote
                == "8190 of the 8192 bytes of the image are gaps, filled with 0xff: the text has data from 0x00000000 to "
                + "0x00000001 and from 0x00001fff to 0x00002000")
    }

    @Test("a byte order mark, comments, blank lines and spaces at line ends do not change the image")
    func whatToolsAdd() throws {
        let image = try parse(Self.sample)
        #expect(try parse("\u{FEFF}" + Self.sample) == image)
        #expect(try parse("// built by CI\n; a\n\n  \t\r\n# b\r\n" + Self.sample + "; end\n\u{1A}") == image)
        #expect(try parse(Self.sample.replacing("\r\n", with: " \t\r\n ")) == image)
        #expect(try parse(Self.sample.replacing("\r\n", with: "\r\n; comment\r\n")) == image)
        // A damaged record is not a comment: one wrong bit changes the colon to ";", or a line end is missing.
        for mark in [";", "#", "; :", "// built by CI*:", "# S0030000FC:"] {
            let error = refusal(Self.sample.replacing(":08001000", with: "\(mark)08001000"))
            #expect(error?.code == .badRecord && error?.line == 5)
        }
        #expect(try parse("; commit 0123456789abcdef0123456789abcdef01234567\n" + Self.sample) == image)
        #expect(refusal("x" + Self.sample)?.code == .badRecord)
        #expect(refusal(String(Self.sample.dropFirst()))?.code == .badRecord)
    }

    @Test("data without a gap are refused if they are longer than the limit")
    func dataWithoutAGapCanBeTooMuchToo() {
        let text = Array((record(0, 0, [1, 2]) + record(0, 2, [3, 4]) + end).utf8)
        #expect(throws: Never.self) { try HexImage(parsing: text, maximumSpan: 4) }
        let error = #expect(throws: HexError.self) { try HexImage(parsing: text, maximumSpan: 3) }
        #expect(error?.description == "line 2: the data are longer than an image may be")
    }

    @Test("each truncated Intel HEX text is refused")
    func everyTruncationIsRefused() throws {
        let text = Array(Self.sample.utf8)
        // The line end of the last line is optional.
        for length in 0..<(text.count - 2) {
            #expect(throws: HexError.self, "cut to \(length) bytes") {
                try HexImage(parsing: Array(text.prefix(length)))
            }
        }
    }

    /// An error names a line of the text, or the missing line after the last one.
    @Test("an accepted mutation of Intel HEX text keeps its image when it is written again")
    func mutations() throws {
        var generator = SplitMix64(seed: 3)
        let text = Array(Self.sample.utf8)
        var taken = 0
        for _ in 0..<4000 {
            let mutation = generator.mutation(of: text)
            do {
                let image = try HexImage(parsing: mutation)
                let again = try parse(written(image))
                #expect(again.bytes == image.bytes && again.startAddress == image.startAddress)
                taken += 1
            } catch {
                #expect((1...(mutation.count { $0 == 0x0A } + 2)).contains(error.line))
            }
        }
        #expect((1..<4000).contains(taken))
    }

    private func written(_ image: HexImage) -> String {
        var text = ""
        for start in stride(from: 0, to: image.bytes.count, by: 16) {
            let address = Int(image.startAddress) + start
            text += record(4, 0, [UInt8(address >> 24), UInt8(address >> 16 & 0xFF)])
            text += record(0, UInt16(address & 0xFFFF), Array(image.bytes[start...].prefix(16)))
        }
        return text + end
    }
}

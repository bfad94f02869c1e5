import OTAFirmware
import Testing

@Suite("CRC-32") struct CRC32Tests {
    /// The CRC of "123456789" is from the RevEng catalogue (CRC-32/ISO-HDLC). The other values are from `zlib.crc32`.
    @Test(
        "the CRC of a text is equal to its known value",
        arguments: [
            ("", 0), ("123456789", 0xCBF4_3926), ("a", 0xE8B7_BE43),
            ("The quick brown fox jumps over the lazy dog", 0x414F_A339),
        ] as [(String, UInt32)])
    func knownValues(text: String, crc: UInt32) {
        #expect(CRC32.checksum(of: text.utf8) == crc)
    }

    /// The expected value is `zlib.crc32(bytes(i % 251 for i in range(600)))`.
    @Test("the CRC does not depend on the split of the bytes")
    func anyCutAnyAlignment() {
        let bytes = (0..<600).map { UInt8($0 % 251) }
        for cut in 0...600 {
            #expect(CRC32.update(CRC32.checksum(of: bytes[..<cut]), bytes[cut...]) == 0xDFB2_943B, "cut at \(cut)")
        }
    }

    @Test("the CRC of a sequence without contiguous storage is correct")
    func aSequenceWithoutStorage() {
        #expect(CRC32.checksum(of: (0..<600).lazy.map { UInt8($0 % 251) }) == 0xDFB2_943B)
    }

    /// The values are the check values of CRC-16/XMODEM and CRC-16/CCITT-FALSE in the CRC catalogue (reveng.sourceforge.io).
    @Test("the CRC-16 of the check text is that of the catalogue, also without contiguous storage")
    func sixteenBits() {
        let text = Array("123456789".utf8)
        #expect(CRC16.checksum(text) == 0x31C3)
        #expect(CRC16.checksum(text, after: 0xFFFF) == 0x29B1)
        #expect(CRC16.checksum(text.lazy.map { $0 }, after: 0xFFFF) == 0x29B1)
        #expect(CRC16.checksum(text + [0x31, 0xC3]) == 0)
    }
}

import OTAFirmware
import Testing

@Suite("MCUboot versions") struct MCUbootVersionTests {
    /// The expected values are those of imgtool's `decode_version`.
    @Test(
        "a version that imgtool accepts is parsed to the same numbers",
        arguments: [
            ("1", "1.0.0"), ("1.2", "1.2.0"), ("1.2.3", "1.2.3"), ("1.2.3+4", "1.2.3+4"), ("1.2.3+0", "1.2.3"),
            ("0.0.0", "0.0.0"), ("255.255.65535+4294967295", "255.255.65535+4294967295"),
        ])
    func whatImgtoolTakes(text: String, description: String) {
        #expect(MCUbootImage.Version(text)?.description == description)
    }

    @Test(
        "a version that imgtool refuses is refused",
        arguments: [
            "", ".", "1.", "1..2", "1.2.3.4", "1.2.3+", "1.2+3", "1+2", "1.2.3+4+5", "01.2.3", "1.02.3", "+1.2.3",
            "-1.2.3",
            "1.2.3-rc.1", "v1.2.3", " 1.2.3", "256.0.0", "0.256.0", "0.0.65536", "0.0.0+4294967296",
        ])
    func whatItDoesNot(text: String) {
        #expect(MCUbootImage.Version(text) == nil)
    }

    @Test("the automatic security counter of a version is that of imgtool")
    func theCounterOfAVersion() throws {
        let version = try #require(MCUbootImage.Version("1.2.3+4"))
        #expect(MCUbootLayout.securityCounter(of: version) == 0x0102_0003)
        let highest = try #require(MCUbootImage.Version("255.255.65535"))
        #expect(MCUbootLayout.securityCounter(of: highest) == 0xFFFF_FFFF)
    }
}

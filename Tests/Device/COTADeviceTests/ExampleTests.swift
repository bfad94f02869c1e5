import COTADevice
import Testing

/// The bundle is the example of the bundle format.
@Suite("The example of the OTA profile in the device core") struct ExampleTests {
    static let envelope = bytes(
        """
        4f544146 02005900 58020000 00000000 07000000 00000000 00b95569 00000000
        db4f2ac2 5d140369 324dbed6 0d7b8e31 4fdf1252 c171f851 3fb7dbf5 cc92e88d
        02000500 312e312e 30018004 0064656d 6f038004 00010003 00010000 00010040
        0021fe31 dfa154a2 61e41b64 ab5d62cc fe4bd1df b5b7609f 00a254a3 d36fa7fc
        247090ad 30ec7f37 8f11dcb0 569e68e9 cb0ba2f9 856ebe12 f9b86597 a7ebbe61
        ee1f6165 eddb8023 05
        """)
    static let image: [UInt8] = (0..<600).map { UInt8($0 % 251) }

    @Test("the test bench makes the bundle of the example byte for byte")
    func theBenchMakesTheSameBundle() {
        #expect(BenchRelease().envelope == Self.envelope)
        #expect(Crypto.crc32(Array("123456789".utf8)) == 0xCBF4_3926)
        #expect(SigningKey.rfc8032.id == bytes("21fe31dfa154a261"))
    }

    @Test("the device sends the notifications of the example byte for byte")
    func transcript() {
        let bench = Bench()
        bench.boot()
        bench.connect()
        func control(_ written: String, answered: String, _ line: SourceLocation = #_sourceLocation) {
            #expect(bench.write(control: bytes(written)) == OTA_ATT_OK, sourceLocation: line)
            #expect(bench.heard(OTA_CONTROL) == [bytes(answered)], sourceLocation: line)
        }
        func data(_ sequence: String, _ chunk: ArraySlice<UInt8>) { bench.write(data: bytes(sequence) + chunk) }

        control("01 21 01 a9000000 00000000 ab017464e2fa78e9", answered: "81 21 00 0010 00000000 00000000")
        data("0010", Self.envelope[0..<169])
        control("02 22 0110", answered: "82 22 00 0110 a9000000 88e1590d")
        control("03 23", answered: "83 23 00")
        control("01 24 02 58020000 ffffffff db4f2ac25d140369", answered: "81 24 00 0120 00000000 00000000")
        data("0120", Self.image[0..<242])
        data("0320", Self.image[484..<600])
        #expect(bench.heard(OTA_PROGRESS) == [bytes("03 00 0230 f2000000 6a82aa3b")])
        data("0230", Self.image[242..<484])
        data("0330", Self.image[484..<600])
        control("02 25 0430", answered: "82 25 00 0430 58020000 3b94b2df")
        control("03 26", answered: "83 26 00")
        control("04 27 00", answered: "84 27 00")
        #expect(bench.marks == [.init(OTA_BOOT_TRIAL, of: BenchRelease())])
        #expect(Array(bench.flash.slot.prefix(600)) == Self.image)

        #expect(bench.log == ["mark"])
        bench.disconnect()
        #expect(bench.log == ["mark", "reboot"])

        bench.settings.onTrial = true
        bench.settings.version = "1.1.0"
        bench.settings.trialCounter = 7
        bench.settings.runningDigest = BenchRelease().digest
        bench.boot()
        bench.connect()
        #expect(bench.read(OTA_VERSION) == bytes("312e312e30"))
        #expect(bench.read(OTA_PROGRESS) == bytes("05 00 0000 00000000 00000000"))
        control("05 28", answered: "85 28 00")
        #expect(bench.confirmations == [.init(counter: 7, digest: BenchRelease().digest)])
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
        #expect(bench.flash.violations.isEmpty)
    }
}

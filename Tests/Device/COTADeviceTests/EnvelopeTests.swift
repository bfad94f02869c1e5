import COTADevice
import Testing

/// Each envelope violates one rule of the bundle format. Its hash and signature are correct.
@Suite("Form of an envelope in the device core") struct EnvelopeTests {
    private func submit(_ envelope: [UInt8]) -> ota_status? {
        var settings = Settings()
        settings.keys = [.rfc8032, .second, .third, .fourth]
        settings.largestEnvelope = UInt16(OTA_ENVELOPE_LARGEST)
        let bench = Bench(settings)
        bench.boot()
        bench.connect()
        let status = bench.submit(envelope)
        #expect(bench.state == (status == OTA_OK ? OTA_STATE_ACCEPTED : OTA_STATE_IDLE))
        return status
    }

    @Test(
        "an envelope that violates one rule of the format is malformed",
        arguments: EnvelopeCase.malformedHeaders + EnvelopeCase.malformedFields + EnvelopeCase.malformedSignatures)
    func isMalformed(_ faulty: EnvelopeCase) { #expect(submit(faulty.envelope) == OTA_MALFORMED) }

    @Test("a well-formed envelope is accepted", arguments: EnvelopeCase.sound)
    func isSound(_ sound: EnvelopeCase) { #expect(submit(sound.envelope) == OTA_OK) }

    @Test(
        "an unknown critical field is refused, but a malformed field has precedence",
        arguments: [0x8000, 0x8002, 0x8004, 0x8006, 0x8007, 0x8009, 0xFFFF] as [UInt16])
    func criticalFieldUnknown(_ type: UInt16) {
        let release = BenchRelease().with(type, [1])
        #expect(submit(release.envelope) == OTA_UNKNOWN_CRITICAL)
        // A malformed field has precedence at any place.
        #expect(submit(release.with(0x0004, [101]).envelope) == OTA_MALFORMED)
        #expect(submit(release.with(0x7000, [1, 2, 3, 4, 5]).without(0x0002).envelope) == OTA_MALFORMED)
    }

    /// The byte after the manifest is the number of signatures.
    @Test("a field that ends one byte after the signed manifest is malformed")
    func aFieldOneByteTooLong() {
        var manifest = BenchRelease().with(0x8005, [UInt8](repeating: 0, count: 12)).manifest
        manifest.removeLast()
        manifest.replaceSubrange(6..<8, with: little(UInt16(manifest.count)))
        #expect(submit(BenchRelease.envelope(manifest, signers: [.rfc8032])) == OTA_MALFORMED)
    }

    @Test("the smallest envelope has 158 bytes, and the default buffer holds four Ed25519 signatures")
    func smallestAndLargest() {
        #expect(EnvelopeCase.largest.envelope.count == Int(OTA_ENVELOPE_DEFAULT))
        #expect(EnvelopeCase.smallest.envelope.count == 158)
        #expect(submit(EnvelopeCase.smallest.envelope) == OTA_WRONG_PRODUCT)
    }

    /// The digest of the manifest identifies the release.
    @Test("mark receives the values of the manifest and its digest")
    func whatTheBootloaderIsTold() {
        let release = BenchRelease().with(0x0006, Array("v1.1-3-gabcdef".utf8))
        var settings = Settings()
        settings.permanentAllowed = true
        let bench = Bench(settings)
        bench.bring(to: OTA_STATE_VERIFIED, release)
        #expect(bench.request(OTA_APPLY, [1]) == OTA_OK)
        #expect(bench.marks == [.init(OTA_BOOT_PERMANENT, of: release, source: "v1.1-3-gabcdef")])
    }
}

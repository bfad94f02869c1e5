import COTADevice
import OTATestSupport
import OTAUpdate
import Testing

/// These tests need the speed of a release build.
@Suite("Exhaustive tests of the device core") struct ExhaustiveTests {
    @Test("an envelope with any flipped bit is refused")
    func everyBitOfAnEnvelope() {
        let bench = Bench()
        bench.boot()
        bench.connect()
        let envelope = BenchRelease().envelope
        #expect(bench.submit(envelope) == OTA_OK)
        for bit in 0..<8 * envelope.count {
            var forged = envelope
            forged[bit / 8] ^= 1 << UInt8(bit % 8)
            let status = bench.submit(forged)
            #expect(status == OTA_MALFORMED || status == OTA_UNTRUSTED || status == OTA_UNKNOWN_CRITICAL, "bit \(bit)")
        }
    }

    @Test("an image with any flipped bit is refused")
    func everyBitOfAnImage() {
        let release = BenchRelease(image: BenchRelease.image(count: 300))
        for bit in 0..<8 * release.image.count {
            let bench = Bench()
            bench.bring(to: OTA_STATE_ACCEPTED, release)
            var forged = release.image
            forged[bit / 8] ^= 1 << UInt8(bit % 8)
            if let position = bench.begin(OTA_OBJECT_IMAGE, release.image) { bench.send(forged, at: position) }
            #expect(bench.request(OTA_FINISH) == OTA_DIGEST_MISMATCH, "bit \(bit)")
        }
    }

    /// The core verifies only the signed bytes.
    @Test("none of 10,000 mutations of a bundle is verified")
    func tenThousandMutationsOfABundle() {
        let release = BenchRelease(image: BenchRelease.image(count: 300))
        var settings = Settings()
        settings.wearMinutes = UInt8(OTA_WEAR_UNLIMITED)
        let bench = Bench(settings)
        var random = SplitMix64(seed: 5)
        var forgedImages = 0
        for number in 0..<10_000 {
            if number % 100 == 0 {
                bench.boot()
                bench.connect()
            }
            let envelope = number % 2 == 0 ? release.envelope : random.mutation(of: release.envelope)
            let image = random.mutation(of: release.image)
            let isAccepted =
                (158...Int(OTA_ENVELOPE_DEFAULT)).contains(envelope.count) && bench.submit(envelope) == OTA_OK
            #expect(!isAccepted || envelope == release.envelope, "mutation \(number)")
            guard isAccepted, let position = bench.begin(OTA_OBJECT_IMAGE, release.image) else { continue }
            bench.send(Array((image + release.image).prefix(release.image.count)), at: position)
            forgedImages += image == release.image ? 0 : 1
            let isVerified = bench.request(OTA_FINISH) == OTA_OK
            #expect(!isVerified || bench.flash.slot.starts(with: release.image), "mutation \(number)")
        }
        #expect(forgedImages > 4000 && bench.marks.isEmpty)
    }

    /// The second power cut happens during the recovery from the first one.
    @Test(
        "after a second power cut during the recovery the device still completes the update",
        arguments: Flash.Cut.allCases)
    func twoPowerCuts(_ second: Flash.Cut) {
        var first = 0
        while true {
            let bench = Story.anotherRelease.play(cutting: first, .middle)
            guard !bench.flash.hasPower else { break }
            for operation in stride(from: first % 7, to: 60, by: 7) {
                let interrupted = Recovery(bench.flash, Story.first, cutting: operation, second)
                #expect(interrupted.findings.isEmpty, "\(first), \(operation)")
                let recovered = Recovery(interrupted.bench.flash, Story.first)
                #expect(recovered.findings.isEmpty, "\(first), \(operation)")
            }
            first += 1
        }
    }
}

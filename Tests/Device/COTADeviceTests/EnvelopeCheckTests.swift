import COTADevice
import Testing

@Suite("Acceptance of an envelope by the device core") struct EnvelopeCheckTests {
    private func bench(_ edit: (inout Settings) -> Void = { _ in }) -> Bench {
        var settings = Settings()
        edit(&settings)
        let bench = Bench(settings)
        bench.boot()
        bench.connect()
        return bench
    }

    private func with(_ numbers: [UInt32]) -> BenchRelease {
        BenchRelease().with(0x8005, numbers.flatMap { little($0) })
    }

    /// The envelope fails every check. Each step corrects one fault.
    @Test("the checks of an envelope run in the order of the profile")
    func order() throws {
        let bench = bench {
            $0.counter = 8
            $0.largestImage = 599
        }
        bench.battery = 49
        bench.isTooOld = true
        bench.permits = false
        var release = BenchRelease(format: 1, signers: [.stranger])
            .with(0x8001, Array("other".utf8)).with(0x8003, little(UInt32(0x0009_0003))).with(0x8007, [0])
            .with(0x8005, [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]).with(0x0004, [50])
        var envelope = release.envelope
        envelope[4] = 1

        let begun = try #require(bench.begin(OTA_OBJECT_ENVELOPE, release.envelope))
        bench.send(envelope, at: begun)
        #expect(bench.request(OTA_FINISH) == OTA_DIGEST_MISMATCH)
        #expect(bench.submit(envelope) == OTA_MALFORMED)
        #expect(bench.submit(release.envelope) == OTA_UNKNOWN_CRITICAL)
        release = release.without(0x8007)
        #expect(bench.submit(release.envelope) == OTA_UNTRUSTED)
        release.signers = [.rfc8032]
        #expect(bench.submit(release.envelope) == OTA_WRONG_PRODUCT)
        release = release.with(0x8001, Array("demo".utf8))
        #expect(bench.submit(release.envelope) == OTA_WRONG_HARDWARE)
        release = release.with(0x8003, little(UInt32(0x0002_0002)))
        #expect(bench.submit(release.envelope) == OTA_TOO_OLD)
        release.counter = 8
        #expect(bench.submit(release.envelope) == OTA_TOO_OLD)
        bench.isTooOld = false
        #expect(bench.submit(release.envelope) == OTA_REQUIRES_NEWER)
        release = release.with(0x8005, [UInt8](repeating: 0, count: 12))
        #expect(bench.submit(release.envelope) == OTA_WRONG_FORMAT)
        release.format = 0
        #expect(bench.submit(release.envelope) == OTA_TOO_LARGE)
        release.image.removeLast()
        #expect(bench.submit(release.envelope) == OTA_BATTERY_LOW)
        bench.battery = 50
        #expect(bench.submit(release.envelope) == OTA_REFUSED)
        bench.permits = true
        #expect(bench.submit(release.envelope) == OTA_OK)
    }

    @Test("a refused envelope leaves the device idle without a Progress")
    func aRefusalEndsInIdle() {
        let bench = bench()
        #expect(bench.submit(BenchRelease(signers: [.stranger]).envelope) == OTA_UNTRUSTED)
        #expect(bench.state == OTA_STATE_IDLE)
        #expect(bench.heard(OTA_PROGRESS).isEmpty)
    }

    @Test("a hash that fails is answered with digest mismatch")
    func aHashThatFailsIsADigestThatDiffers() {
        let bench = bench()
        bench.hashFails = true
        #expect(bench.submit(BenchRelease().envelope) == OTA_DIGEST_MISMATCH)
    }

    @Test("each signature by a trusted key must be valid, and unknown keys are ignored")
    func signatures() {
        let bench = bench { $0.keys = [.second, .rfc8032] }
        func forged(_ signers: [SigningKey], _ forger: SigningKey) -> [UInt8] {
            let release = BenchRelease(signers: signers)
            let order = signers.sorted { $0.id.lexicographicallyPrecedes($1.id) }
            let place = order.firstIndex { $0.id == forger.id } ?? 0
            var envelope = release.envelope
            envelope[release.manifest.count + 4 + 76 * place + 12 + 63] ^= 0x01
            return envelope
        }
        #expect(bench.submit(BenchRelease(signers: [.rfc8032]).envelope) == OTA_OK)
        #expect(bench.submit(BenchRelease(signers: [.second]).envelope) == OTA_OK)
        #expect(bench.submit(BenchRelease(signers: [.rfc8032, .second]).envelope) == OTA_OK)
        #expect(bench.submit(forged([.rfc8032], .rfc8032)) == OTA_UNTRUSTED)
        // One wrong signature by a trusted key is enough to refuse the bundle.
        #expect(bench.submit(forged([.rfc8032, .second], .rfc8032)) == OTA_UNTRUSTED)
        #expect(bench.submit(forged([.rfc8032, .second], .second)) == OTA_UNTRUSTED)
        // A signature by an unknown key is ignored and not verified.
        bench.verifications = 0
        #expect(bench.submit(BenchRelease(signers: [.stranger, .rfc8032]).envelope) == OTA_OK)
        #expect(bench.submit(forged([.stranger, .rfc8032], .stranger)) == OTA_OK)
        #expect(bench.submit(BenchRelease(signers: [.stranger, .third, .fourth]).envelope) == OTA_UNTRUSTED)
        #expect(bench.verifications == 2)
    }

    @Test(
        "a bundle needs as many different trusted signatures as the configuration requires",
        arguments: [0, 1, 2, 3] as [UInt8])
    func requiredSignatures(_ required: UInt8) {
        let bench = bench {
            $0.keys = [.second, .rfc8032, .third]
            $0.requiredSignatures = required
        }
        let signers: [[SigningKey]] = [
            [.stranger], [.rfc8032], [.rfc8032, .stranger], [.second, .third], [.second, .third, .stranger],
            [.rfc8032, .second, .third],
        ]
        for keys in signers {
            let trusted = keys.count { $0.id != SigningKey.stranger.id }
            let isEnough = trusted >= max(1, Int(required))
            #expect(
                bench.submit(BenchRelease(signers: keys).envelope) == (isEnough ? OTA_OK : OTA_UNTRUSTED), "\(trusted)")
        }
        // Two signatures by the same key are malformed.
        let manifest = BenchRelease().manifest
        let entry = SigningKey.second.entry(manifest)
        #expect(bench.submit(manifest + [2, 0, 0, 0] + entry + entry) == OTA_MALFORMED)
    }

    @Test(
        "a security counter that exceeds the largest counter step is refused",
        arguments: [(0, UInt32.max, true), (10, 15, true), (10, 16, false), (10, .max, false), (1, 5, true)]
            as [(UInt32, UInt32, Bool)])
    func counterStep(_ largest: UInt32, _ counter: UInt32, _ fits: Bool) {
        let bench = bench { $0.largestCounterStep = largest }
        #expect(bench.submit(BenchRelease(counter: counter).envelope) == (fits ? OTA_OK : OTA_REFUSED))
        #expect(bench.submit(BenchRelease(counter: 4).envelope) == OTA_TOO_OLD)
    }

    /// The key id only selects the key. The signature then fails.
    @Test("a signature by another key with the id of a trusted key is refused")
    func aKeyIDProvesNothing() {
        let bench = bench()
        var envelope = BenchRelease(signers: [.stranger]).envelope
        envelope.replaceSubrange(97..<105, with: SigningKey.rfc8032.id)
        #expect(bench.submit(envelope) == OTA_UNTRUSTED)
    }

    @Test("an image resumes although its manifest now has a second signature")
    func aManifestOfTwoSignaturesIsTheSameRelease() throws {
        let bench = bench()
        #expect(bench.submit(BenchRelease(signers: [.rfc8032]).envelope) == OTA_OK)
        let release = BenchRelease()
        bench.send(release.image, at: try #require(bench.begin(OTA_OBJECT_IMAGE, release.image)), upTo: 400)
        #expect(bench.submit(BenchRelease(signers: [.rfc8032, .second]).envelope) == OTA_OK)
        #expect(bench.begin(OTA_OBJECT_IMAGE, release.image, from: .max)?.offset == 400)
    }

    @Test(
        "the product name must match exactly",
        arguments: [("dem", false), ("demo", true), ("demo1", false), ("Demo", false)])
    func product(_ product: String, _ fits: Bool) {
        let release = BenchRelease().with(0x8001, Array(product.utf8))
        #expect(bench().submit(release.envelope) == (fits ? OTA_OK : OTA_WRONG_PRODUCT))
    }

    @Test(
        "the hardware revision must lie in a range of the manifest",
        arguments: [(0, false), (1, true), (3, true), (4, false), (6, false), (7, true), (8, false), (65535, true)])
    func hardware(_ revision: UInt16, _ fits: Bool) {
        let release = BenchRelease().with(0x8003, ([1, 3, 7, 7, 9000, 65535] as [UInt16]).flatMap { little($0) })
        #expect(bench { $0.hardware = revision }.submit(release.envelope) == (fits ? OTA_OK : OTA_WRONG_HARDWARE))
    }

    @Test(
        "a security counter lower than the device's is refused",
        arguments: [(0, true), (6, true), (7, true), (8, false), (UInt32.max, false)])
    func counter(_ counter: UInt32, _ fits: Bool) {
        #expect(bench { $0.counter = counter }.submit(BenchRelease().envelope) == (fits ? OTA_OK : OTA_TOO_OLD))
    }

    @Test(
        "the required version is compared as numbers, without the pre-release",
        arguments: [
            ([2, 10, 3], true), ([2, 10, 4], false), ([2, 11, 0], false), ([3, 0, 0], false), ([2, 9, 99], true),
            ([1, 99, 99], true), ([0, 0, 0], true), ([2, 10, UInt32.max], false), ([UInt32.max, 0, 0], false),
        ] as [([UInt32], Bool)])
    func requires(_ numbers: [UInt32], _ fits: Bool) {
        // 10 is higher than 9, and the pre-release is ignored.
        let status = bench { $0.version = "2.10.3-rc.1+b" }.submit(with(numbers).envelope)
        #expect(status == (fits ? OTA_OK : OTA_REQUIRES_NEWER))
    }

    @Test(
        "an image that is larger than the largest image is refused",
        arguments: [(599, false), (600, true), (16384, true)])
    func largestImage(_ largest: UInt32, _ fits: Bool) {
        #expect(bench { $0.largestImage = largest }.submit(BenchRelease().envelope) == (fits ? OTA_OK : OTA_TOO_LARGE))
    }

    @Test(
        "an image of another format is refused, except by a device that accepts any; a Nordic DFU package is always refused",
        arguments: [0, 1, 2, 255] as [UInt8])
    func format(_ format: UInt8) {
        let bench = bench {
            $0.format = format
            $0.largestImage = 1000
        }
        for other in UInt8(0)...3 {
            let isAccepted = other < 3 && (other == format || format == 255)
            #expect(bench.submit(BenchRelease(format: other).envelope) == (isAccepted ? OTA_OK : OTA_WRONG_FORMAT))
        }
    }

    @Test("a battery level below the minimum is refused")
    func battery() {
        let bench = bench()
        let release = BenchRelease().with(0x0004, [40])
        for (level, fits) in [(0, false), (39, false), (40, true), (100, true), (255, true)] as [(UInt8, Bool)] {
            bench.battery = level
            #expect(bench.submit(release.envelope) == (fits ? OTA_OK : OTA_BATTERY_LOW))
        }
        bench.battery = 0
        #expect(bench.submit(BenchRelease().envelope) == OTA_OK)
    }

    /// The device then runs on mains and has no policy.
    @Test("without the optional callbacks their checks pass")
    func optionalCallbacks() {
        let bench = bench()
        bench.permits = false
        bench.isTooOld = true
        bench.battery = 0
        bench.change {
            $0.battery = nil
            $0.too_old = nil
            $0.permits = nil
            $0.identify = nil
            $0.begun = nil
        }
        #expect(bench.submit(BenchRelease().with(0x0004, [40]).envelope) == OTA_OK)
        #expect(bench.request(OTA_IDENTIFY, [3]) == OTA_UNKNOWN_OPCODE)
        #expect(bench.begun.isEmpty)
    }
}

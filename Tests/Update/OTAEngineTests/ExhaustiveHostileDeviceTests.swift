import Gauntlet
import OTAUpdate
import Testing

/// Devices that send wrong answers by a plan. Each command ends within the limits of time and bytes, over both protocols.
@Suite("Hostile devices") struct ExhaustiveHostileDeviceTests {
    /// Enough plans for every variant of every strategy.
    private static let plans: Range<UInt64> = 0..<300

    @Test("a host ends within its limits with a hostile device that has the OTA profile")
    func profile() throws {
        let release = try ExampleRelease(bytes: 16_384, version: "1.1.0", counter: 2, keySeed: 1)
        for seed in Self.plans {
            var random = SplitMix64(seed: seed)
            let offences = try HostileRun { Int.random(in: $0, using: &random) }.run(release, seed: seed)
            #expect(offences.isEmpty, "seed \(seed): \(offences)")
        }
    }

    @Test(
        "a push of an encoded image ends within its limits with a hostile device",
        arguments: HostilePlan.Encoding.allCases)
    func encodings(encoding: HostilePlan.Encoding) throws {
        let release = try ExampleRelease(image: Firmware.image(bytes: 16_384, seed: 1), keySeed: 1)
        for seed in 0..<100 as Range<UInt64> {
            var random = SplitMix64(seed: seed)
            let run = HostileRun(pushTo: encoding) { Int.random(in: $0, using: &random) }
            let offences = try run.run(release, seed: seed)
            #expect(offences.isEmpty, "seed \(seed): \(offences)")
        }
    }

    @Test("a host ends within its limits with a hostile SMP server")
    func smp() throws {
        let release = try SMPRelease(bytes: 16_384, version: (1, 1, 0, 0), keySeed: 1)
        for seed in Self.plans {
            var random = SplitMix64(seed: seed)
            let offences = try HostileRun { Int.random(in: $0, using: &random) }.run(release, seed: seed)
            #expect(offences.isEmpty, "seed \(seed): \(offences)")
        }
    }
}

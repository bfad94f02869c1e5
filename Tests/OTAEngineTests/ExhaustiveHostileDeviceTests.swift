import Gauntlet
import OTAUpdate
import Testing

/// Devices that lie by a plan: each command ends within the limits of time and bytes, over both protocols.
@Suite struct ExhaustiveHostileDeviceTests {
    /// Enough for each strategy, with each of its forms.
    private static let plans: Range<UInt64> = 0..<300

    @Test("a host ends within its limits, however a device with the GATT OTA profile lies")
    func profile() throws {
        let release = try Release(bytes: 16_384, version: "1.1.0", counter: 2, keySeed: 1)
        for seed in Self.plans {
            var random = SplitMix64(seed: seed)
            let offences = try HostileRun { Int.random(in: $0, using: &random) }.run(release, seed: seed)
            #expect(offences.isEmpty, "seed \(seed): \(offences)")
        }
    }

    @Test("a host ends within its limits, however an SMP server lies")
    func smp() throws {
        let release = try SMPRelease(bytes: 16_384, version: (1, 1, 0, 0), keySeed: 1)
        for seed in Self.plans {
            var random = SplitMix64(seed: seed)
            let offences = try HostileRun { Int.random(in: $0, using: &random) }.run(release, seed: seed)
            #expect(offences.isEmpty, "seed \(seed): \(offences)")
        }
    }
}

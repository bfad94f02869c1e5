import OTAUpdate
import Testing

@Suite("SplitMix64 random numbers") struct SplitMix64Tests {
    // Source: splitmix64.c by Vigna; Rosetta Code has the same values.
    @Test("the first values for seed 1234567 equal those of the reference implementation")
    func agreesWithTheReference() {
        var random = SplitMix64(seed: 1_234_567)
        let expected: [UInt64] = [
            6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
            4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
        ]
        for value in expected { #expect(random.next() == value) }
    }
}

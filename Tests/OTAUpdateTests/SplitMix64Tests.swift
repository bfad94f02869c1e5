import OTAUpdate
import Testing

@Suite struct SplitMix64Tests {
    /// The reference implementation's first values for the seed 1234567 (Vigna, splitmix64.c; also Rosetta Code).
    @Test func agreesWithTheReference() {
        var random = SplitMix64(seed: 1_234_567)
        let expected: [UInt64] = [
            6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
            4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
        ]
        for value in expected { #expect(random.next() == value) }
    }
}

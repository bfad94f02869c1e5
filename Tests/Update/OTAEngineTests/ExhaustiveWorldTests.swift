import Gauntlet
import Testing

/// Complete updates in random worlds with many faults at once. `otaflash-gauntlet` plays more of these worlds.
@Suite("Updates in random worlds") struct ExhaustiveWorldTests {
    private static let worlds: ClosedRange<UInt64> = 1...1000

    @Test("no random world breaks a rule of the gauntlet, and more than 60 % of the pushes are confirmed")
    func nothingIsEverLost() throws {
        let gauntlet = try Gauntlet()
        var confirmed = 0
        for seed in Gauntlet.formerFailures + Array(Self.worlds) {
            let ending = try gauntlet.play(seed: seed)
            #expect(ending.offences.isEmpty, "\(Gauntlet.replay(seed))")
            if ending.isConfirmed { confirmed += 1 }
        }
        // If most pushes failed, the worlds would test little.
        #expect(confirmed > Self.worlds.count * 6 / 10)
    }

    @Test("two plays of a world with the same seed have the same transcript")
    func sameSeedSameTranscript() throws {
        let gauntlet = try Gauntlet()
        for seed in Self.worlds.prefix(20) {
            let (one, other) = (try gauntlet.play(seed: seed, keepsTranscript: true), try gauntlet.play(seed: seed))
            #expect(one.transcriptHash == other.transcriptHash && !one.transcript.isEmpty, "seed \(seed)")
        }
    }
}

import Gauntlet
import Testing

/// Whole updates in random worlds, many faults at once: what `otaflash-gauntlet` plays, a part of it for every run of the tests.
@Suite struct ExhaustiveWorldTests {
    private static let worlds: ClosedRange<UInt64> = 1...1000

    @Test func nothingIsEverLost() throws {
        let gauntlet = try Gauntlet()
        var confirmed = 0
        for seed in Gauntlet.formerFailures + Array(Self.worlds) {
            let ending = try gauntlet.play(seed: seed)
            #expect(ending.offences.isEmpty, "\(Gauntlet.replay(seed))")
            if ending.isConfirmed { confirmed += 1 }
        }
        // Faults are there to be survived: where most pushes fail, little was tried.
        #expect(confirmed > Self.worlds.count * 6 / 10)
    }

    @Test func sameSeedSameTranscript() throws {
        let gauntlet = try Gauntlet()
        for seed in Self.worlds.prefix(20) {
            let (one, other) = (try gauntlet.play(seed: seed, keepsTranscript: true), try gauntlet.play(seed: seed))
            #expect(one.transcriptHash == other.transcriptHash && !one.transcript.isEmpty, "seed \(seed)")
        }
    }
}

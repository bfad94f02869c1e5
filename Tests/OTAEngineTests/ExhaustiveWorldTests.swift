import Gauntlet
import Testing

/// Whole updates in random worlds, many faults at once: what `otaflash-gauntlet` plays, a part of it for every run of the tests.
@Suite struct ExhaustiveWorldTests {
    private static let worlds: ClosedRange<UInt64> = 1...1000
    /// Seeds of worlds in which something was lost once, with what it was.
    private static let formerFailures: [UInt64] = [
        // The verdict did not wait for a device that was just restarting.
        529, 659,
        // A report named the last link's chunk length, and not the longest.
        19177,
        // An SMP upload's last answer was lost: all of it was sent again, over and over. A timer of the device was forgotten.
        10,
        // An SMP upload was opened with a packet that the link did not carry.
        54,
        // The virtual SMP server programmed nothing, and that wore the flash.
        1012,
        // Three answers of a dozen values each came with holes, and the reason told was none that this world explained.
        15000, 18520,
    ]

    @Test func nothingIsEverLost() throws {
        let gauntlet = try Gauntlet()
        var confirmed = 0
        for seed in Self.formerFailures + Array(Self.worlds) {
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

import OTAUpdate
import Testing

@Suite("Retry policy for links") struct RetryPolicyTests {
    @Test(
        "after three retries with doubled waits, the next failure in a row is final",
        arguments: 1...20 as ClosedRange<UInt64>)
    func endsAfterThreeFailuresInARow(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var policy = RetryPolicy()
        for doubling in [1.0, 2, 4] {
            let failed = policy.failed(random: &random)
            let wait = try #require(failed)
            #expect(wait >= .milliseconds(500) * doubling && wait <= .milliseconds(625) * doubling)
        }
        #expect(policy.failed(random: &random) == nil)
    }

    @Test("progress resets the count of failures")
    func progressResetsTheCount() {
        var random = SplitMix64(seed: 1)
        var policy = RetryPolicy()
        for _ in 0..<100 {
            #expect(policy.failed(random: &random) != nil)
            #expect(policy.failed(random: &random) != nil)
            policy.progressed()
        }
    }

    @Test("up to three late link losses extend the reconnect time, each by one restart time")
    func lateLossesExtendTheLook() {
        var policy = RetryPolicy()
        func look(_ now: Int64, _ end: Int64) -> Duration {
            policy.lost(at: .seconds(now), lookingUntil: .seconds(end), restart: .seconds(10))
        }
        #expect(look(50, 80) == .seconds(80))
        for _ in 1...3 { #expect(look(70, 80) == .seconds(80), "the time is sufficient, so this is no extension") }
        #expect(look(75, 80) == .seconds(85))
        #expect(look(90, 85) == .seconds(100))
        policy.progressed()
        #expect(look(110, 100) == .seconds(120))
        #expect(look(130, 120) == .seconds(120))
    }

    @Test("failures within the reconnect time never end the retries, and each wait is at most 2.5 s")
    func withinTimeItNeverEndsAndStaysBrisk() {
        var random = SplitMix64(seed: 1)
        var policy = RetryPolicy()
        for _ in 0..<100 {
            let wait = policy.failedWithinTime(random: &random)
            #expect(wait >= RetryPolicy.shortestWait && wait <= .milliseconds(2500))
        }
    }
}

import OTAUpdate
import Testing

@Suite struct RetryPolicyTests {
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func endsAfterThreeFailuresInARow(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var policy = RetryPolicy()
        for doubling in [1.0, 2, 4] {
            let failed = policy.failed(random: &random)
            let wait = try #require(failed)
            #expect(wait >= .milliseconds(500) * doubling && wait <= .milliseconds(625) * doubling)
        }
        #expect(policy.failed(random: &random) == nil)
    }

    @Test func progressResetsTheCount() {
        var random = SplitMix64(seed: 1)
        var policy = RetryPolicy()
        for _ in 0..<100 {
            #expect(policy.failed(random: &random) != nil)
            #expect(policy.failed(random: &random) != nil)
            policy.progressed()
        }
    }

    @Test func withinTimeItNeverEndsAndStaysBrisk() {
        var random = SplitMix64(seed: 1)
        var policy = RetryPolicy()
        for _ in 0..<100 {
            let wait = policy.failedWithinTime(random: &random)
            #expect(wait >= RetryPolicy.shortestWait && wait <= .milliseconds(2500))
        }
    }
}

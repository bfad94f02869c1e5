import OTAUpdate
import Testing

@Suite("Progress budget of a push") struct ProgressBudgetTests {
    private static let imageBytes = 60_000

    @Test("repeated requests for the same bytes end a push, and an acknowledged byte resets their count")
    func rewinds() {
        var budget = ProgressBudget(imageBytes: Self.imageBytes)
        for _ in 1..<ProgressBudget.mostRewinds { budget.rewound(losesBytes: false) }
        #expect(budget.exhausted == nil)
        budget.acknowledged()
        for _ in 1..<ProgressBudget.mostRewinds { budget.rewound(losesBytes: false) }
        #expect(budget.exhausted == nil)
        budget.rewound(losesBytes: false)
        #expect(budget.exhausted?.code == .noProgress)
    }

    @Test(
        "a device that repeatedly loses received bytes ends a push unless the furthest offset advances"
    )
    func losses() {
        var budget = ProgressBudget(imageBytes: Self.imageBytes)
        func loseBytes(_ times: Int) {
            for _ in 0..<times {
                budget.rewound(losesBytes: true)
                budget.acknowledged()
            }
        }
        loseBytes(ProgressBudget.mostRewinds - 1)
        #expect(budget.exhausted == nil)
        budget.advanced(by: 1)
        loseBytes(ProgressBudget.mostRewinds - 1)
        #expect(budget.exhausted == nil)
        loseBytes(1)
        #expect(budget.exhausted?.code == .noProgress)
    }

    @Test("the number of sent bytes is limited even if each window makes one byte of progress")
    func bytes() {
        var budget = ProgressBudget(imageBytes: Self.imageBytes)
        budget.sent(ProgressBudget.mostBytes(ofImage: Self.imageBytes))
        budget.advanced(by: 1)
        #expect(budget.exhausted == nil)
        budget.sent(1)
        #expect(budget.exhausted?.code == .noProgress)
    }

    @Test("a transfer below the slowest rate ends, and progress adds time at that rate")
    func time() {
        var budget = ProgressBudget(imageBytes: Self.imageBytes)
        var now = Duration.zero
        func pass(_ seconds: Int) {
            for _ in 0..<seconds {
                now += .seconds(1)
                budget.pass(to: now, counts: true)
            }
        }
        pass(Int(ProgressBudget.spareTime.components.seconds))
        #expect(budget.exhausted == nil)
        pass(1)
        #expect(budget.exhausted?.code == .noProgress)
        budget.advanced(by: 10 * ProgressBudget.slowestRate)
        pass(9)
        #expect(budget.exhausted == nil)
        pass(1)
        #expect(budget.exhausted?.code == .noProgress)
    }

    @Test("the time while the host sleeps does not count")
    func sleep() {
        var budget = ProgressBudget(imageBytes: Self.imageBytes)
        budget.pass(to: .seconds(86_400), counts: true)
        #expect(budget.exhausted == nil)
        // Time in phases with their own limit does not count.
        for second in 1...10_000 { budget.pass(to: .seconds(86_400 + second), counts: false) }
        #expect(budget.exhausted == nil)
    }
}

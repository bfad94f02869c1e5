import OTAUpdate
import Testing

@Suite("Ledger of a push") struct TransferLedgerTests {
    var ledger = TransferLedger(imageBytes: 150)

    @Test("only bytes above the highest acknowledged offset of their image are progress, also after another image")
    mutating func progress() {
        ledger.open(bytes: 100)
        let first = [40, 40, 30, 41].map { ledger.acknowledged($0) }
        #expect(first == [true, false, false, true])
        ledger.open(image: 1, bytes: 50)
        #expect(ledger.acknowledgedOffset == 0)
        let second = ledger.acknowledged(10)
        #expect(second)
        ledger.open(image: 0, bytes: 100)
        let third = [41, 42].map { ledger.acknowledged($0) }
        #expect(third == [false, true])
        #expect(ledger.statistics.imageBytes == 150)
    }

    @Test("the duration counts from the first image byte, and without an image byte no upload is reported")
    mutating func duration() {
        let nothing = ledger.uploaded(at: .seconds(3))
        #expect(nothing == nil)
        ledger.sent(5, at: .seconds(4))
        ledger.sent(5, at: .seconds(5))
        let statistics = ledger.uploaded(at: .seconds(9))
        #expect(statistics?.duration == .seconds(5))
        #expect(statistics?.sentBytes == 10)
    }

    @Test("acknowledged bytes that are no progress reset the count of rewinds")
    mutating func rewinds() {
        ledger.open(bytes: 100)
        _ = ledger.acknowledged(50)
        ledger.acknowledgedOffset = 0
        for _ in 1..<ProgressBudget.mostRewinds { ledger.budget.rewound(losesBytes: false) }
        _ = ledger.acknowledged(20)
        ledger.budget.rewound(losesBytes: false)
        #expect(ledger.budget.exhausted == nil)
    }
}

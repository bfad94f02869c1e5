import OTAFleetCommands
import Testing

@Suite("Repeated warnings of a gateway") struct WarningCounterTests {
    private static let quiet = Duration.seconds(600)

    @Test("of four warnings that alternate for an hour, each is shown twice, and then the 10th and the 100th time")
    func alternating() {
        var counter = WarningCounter()
        var shown: [String: [Int]] = [:]
        for second in stride(from: 0, to: 3600, by: 5) {
            for text in ["a", "b", "c", "d"] {
                if let number = counter.count(text, at: .seconds(second), quiet: Self.quiet) {
                    shown[text, default: []].append(number)
                }
            }
        }
        #expect(shown.count == 4 && shown.values.allSatisfy { $0 == [1, 2, 10, 100] }, "\(shown)")
    }

    @Test("after the quiet time, a warning is shown as new")
    func quietTime() {
        var counter = WarningCounter()
        let times = [0, 1, 2, 602, 603, 1204]
        let numbers = times.map { counter.count("a", at: .seconds($0), quiet: Self.quiet) }
        #expect(numbers == [1, 2, nil, nil, nil, 1])
    }

    @Test("the number of remembered texts is limited; the oldest is new again")
    func limit() {
        var counter = WarningCounter()
        for number in 0...1000 { _ = counter.count("\(number)", at: .milliseconds(number), quiet: Self.quiet) }
        #expect(counter.count("1000", at: .seconds(2), quiet: Self.quiet) == 2)
        #expect(counter.count("0", at: .seconds(2), quiet: Self.quiet) == 1)
    }
}

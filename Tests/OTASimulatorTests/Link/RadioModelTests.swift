import OTASimulator
import Testing

@Suite struct RadioModelTests {
    /// Packets per event × 251 bytes less 7 for each value, per interval (docs/command-line.md), reckoned by hand.
    @Test(arguments: [
        (6, 15, 244, 97_600.0),  // 6 × 244 bytes in 15 ms
        (6, 15, 495, 99_000.0),  // 3 × 495 bytes in 15 ms
        (4, 50, 244, 19_520.0),  // 4 × 244 bytes in 50 ms
        (5, 10, 495, 123_750.0),  // 2.5 × 495 bytes in 10 ms
    ])
    func boundOfALink(perEvent: Int, interval: Int, length: Int, bound: Double) {
        var radio = RadioModel()
        radio.perEvent = perEvent
        radio.interval = .milliseconds(interval)
        #expect(radio.bytesPerSecondBound(valueLength: length) == bound)
    }
}

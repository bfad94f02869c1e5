import OTASimulator
import Testing

@Suite("Throughput bound of the radio model") struct RadioModelTests {
    /// The expected values are calculated by hand: packets per event × 251 bytes, minus 7 bytes for each value, per interval
    /// (docs/command-line.md).
    @Test(
        "the throughput bound follows from the packets per event, the interval and the value length",
        arguments: [
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

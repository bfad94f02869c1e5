/// Measures the rate of a transfer over the last 3 seconds and estimates the remaining time.
struct RateMeter {
    private static let window = Duration.seconds(3)
    private var samples: [(time: Duration, offset: Int)] = []

    /// Adds a sample.
    ///
    /// - Parameters:
    ///   - offset: the offset of the transfer, in bytes.
    ///   - time: the time since the session started.
    ///   - isContinuous: false if the transfer resumes at `offset` after a break. Earlier samples then do not count.
    mutating func add(offset: Int, at time: Duration, isContinuous: Bool = true) {
        if !isContinuous || offset < samples.last?.offset ?? 0 { samples = [] }
        samples.append((time, offset))
        // One sample older than the window remains, so that a slow transfer also has two samples.
        while samples.count > 2, time - samples[1].time >= Self.window { samples.removeFirst() }
    }

    /// The rate; nil: not known yet.
    var bytesPerSecond: Double? {
        guard let first = samples.first, let last = samples.last, last.time > first.time else { return nil }
        return Double(last.offset - first.offset) / (last.time - first.time).seconds
    }

    /// The estimated time until the transfer reaches `total` bytes, in seconds; nil: not known yet.
    func secondsLeft(to total: Int) -> Double? {
        guard let rate = bytesPerSecond, rate > 0, let last = samples.last else { return nil }
        return Double(total - last.offset) / rate
    }
}

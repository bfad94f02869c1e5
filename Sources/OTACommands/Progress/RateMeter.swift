/// How fast a transfer is, smoothed over its last seconds, and when it will be over.
struct RateMeter {
    private static let window = Duration.seconds(3)
    private var samples: [(time: Duration, offset: Int)] = []

    /// The transfer has come to `offset`, in bytes, or goes on from there after a break, which is no speed.
    mutating func add(offset: Int, at time: Duration, isContinuous: Bool = true) {
        if !isContinuous || offset < samples.last?.offset ?? 0 { samples = [] }
        samples.append((time, offset))
        // One sample older than the window stays, so that there are two also where they come seldom.
        while samples.count > 2, time - samples[1].time >= Self.window { samples.removeFirst() }
    }

    /// Nil: nothing can be said yet.
    var bytesPerSecond: Double? {
        guard let first = samples.first, let last = samples.last, last.time > first.time else { return nil }
        return Double(last.offset - first.offset) / (last.time - first.time).seconds
    }

    func secondsLeft(to total: Int) -> Double? {
        guard let rate = bytesPerSecond, rate > 0, let last = samples.last else { return nil }
        return Double(total - last.offset) / rate
    }
}

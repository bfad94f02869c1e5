import OTAUpdate

extension SplitMix64 {
    /// True with this probability. No number is drawn for a probability of 0, so that a fault that is not asked for does
    /// not change the course of a run.
    mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }
}

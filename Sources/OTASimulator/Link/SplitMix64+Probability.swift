import OTAUpdate

extension SplitMix64 {
    /// Returns true with this probability. For a probability of 0 it draws no random number, so that an unused fault does not change the
    /// sequence of a run.
    mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }
}

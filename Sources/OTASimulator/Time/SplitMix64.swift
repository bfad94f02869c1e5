/// Steele, Lea and Flood's SplitMix64 (OOPSLA 2014): small, and the same numbers from the same seed on every machine.
public struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    public init(seed: UInt64) { state = seed }

    public mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }

    /// True with this probability. No number is drawn for a probability of 0, so that a fault that is not asked for does
    /// not change the course of a run.
    mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }
}

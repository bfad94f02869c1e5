import OTAUpdate

/// A random generator that makes a world's decisions from its seed.
struct Dice {
    private var random: SplitMix64

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    mutating func next() -> UInt64 { random.next() }
    mutating func happens(_ probability: Double) -> Bool { Double.random(in: 0..<1, using: &random) < probability }
    mutating func part() -> Double { Double.random(in: 0...1, using: &random) }
    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }
    mutating func one<Choice>(of choices: [Choice]) -> Choice { choices[number(0...choices.count - 1)] }
}

import OTAUpdate

/// How often, of all occasions, a device does what it should not (0 to 1).
struct HostileTemper {
    var gaps = 0.0
    /// No answer, no value, no notification.
    var silence = 0.0
    /// Up to a minute late.
    var tardiness = 0.0
    var garbage = 0.0
    var lies = 0.0
    var storms = 0.0
    var business = 0.0
    var refusals = 0.0
    var breaks = 0.0
    var unreachable = 0.0
    var resets = 0.0
    /// Another window, MTU or longest value than last time.
    var fickleness = 0.0
    var spoiltImages = 0.0
    /// Links that do not end when asked to, and links that still speak when they have ended.
    var clinging = 0.0
    /// Requests that are overtaken by the chunks behind them, as BlueZ may have it.
    var overtaking = 0.0
    var interruptions = 0.0
    var isFoundOnTrial = 0.0
    var isFoundUpdated = 0.0

    var window = 64
    var valueLength = 244

    /// One vice alone, a few, or all of them.
    init(random: inout SplitMix64) {
        let vices: [WritableKeyPath<HostileTemper, Double>] = [
            \.gaps, \.silence, \.tardiness, \.garbage, \.lies, \.storms, \.business, \.refusals, \.breaks,
            \.unreachable,
            \.resets, \.fickleness, \.spoiltImages, \.clinging, \.overtaking, \.interruptions,
            \.isFoundOnTrial, \.isFoundUpdated,
        ]
        let count = [1, 2, 4, vices.count][Int(random.next() % 4)]
        for vice in vices.shuffled(using: &random).prefix(count) {
            self[keyPath: vice] = [0.01, 0.05, 0.2, 0.6, 1][Int(random.next() % 5)]
        }
        window = [1, 2, 16, 64, 256, 300, 600, 2047][Int(random.next() % 8)]
        valueLength = [20, 20, 182, 244, 495, 514][Int(random.next() % 6)]
    }
}

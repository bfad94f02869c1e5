import OTAUpdate

/// The probability of each fault of a device, from 0 to 1.
struct HostileTemper {
    var gaps = 0.0
    /// An answer, a value or a notification is missing.
    var silence = 0.0
    /// An event is up to a minute late.
    var tardiness = 0.0
    var garbage = 0.0
    var lies = 0.0
    var storms = 0.0
    var business = 0.0
    var refusals = 0.0
    var breaks = 0.0
    var unreachable = 0.0
    var resets = 0.0
    /// The window, the MTU or the longest value differs from the previous link.
    var fickleness = 0.0
    var spoiltImages = 0.0
    /// A link does not end on request, or still delivers events after its end.
    var clinging = 0.0
    /// Chunks overtake the request before them. BlueZ can cause this order.
    var overtaking = 0.0
    var interruptions = 0.0
    var isFoundOnTrial = 0.0
    var isFoundUpdated = 0.0
    /// The device refuses the base of an encoded image.
    var baseRefusals = 0.0
    /// A Data value of an encoded image cannot be decoded.
    var undecodable = 0.0
    /// The encoder fails, or answers after more than a minute.
    var encoderFaults = 0.0

    var offersEncodings = false
    var window = 64
    var valueLength = 244

    /// Selects one, two, four or all kinds of faults at random.
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
        offersEncodings = Bool.random(using: &random)
        for vice in [\.baseRefusals, \.undecodable, \.encoderFaults] as [WritableKeyPath<HostileTemper, Double>] {
            self[keyPath: vice] = [0, 0, 0, 0.01, 0.2, 1][Int(random.next() % 6)]
        }
    }
}

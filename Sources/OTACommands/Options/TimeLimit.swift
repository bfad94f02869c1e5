import ArgumentParser

/// A duration as a person types it: a whole number and its unit, such as `30s`, `10m` or `2h`.
struct TimeLimit: Sendable {
    let duration: Duration

    private static let unitSeconds: [Character: Int64] = ["s": 1, "m": 60, "h": 3600]
    /// A week, in seconds.
    private static let most: Int64 = 7 * 86400

    /// Nil for any other text, and for 0 or more than a week.
    init?(_ text: String) {
        guard let unit = text.last, let unitSeconds = Self.unitSeconds[unit] else { return nil }
        let digits = text.dropLast()
        guard !digits.isEmpty, digits.utf8.allSatisfy(UInt8.isDigit), let number = Int64(digits) else { return nil }
        let (seconds, overflows) = number.multipliedReportingOverflow(by: unitSeconds)
        guard !overflows, 1...Self.most ~= seconds else { return nil }
        duration = .seconds(seconds)
    }
}

/// Counts the warnings of a program that tries again every few seconds, and decides which of them are shown.
///
/// The first and the second occurrence of a text are shown, and then the 10th, the 100th and so on. After a quiet time, a text counts as new.
package struct WarningCounter: Sendable {
    private struct Entry {
        var count: Int
        var last: Duration
    }

    /// The maximum number of texts. Other programs cause some of the warnings of a gateway, and it runs for years.
    private static let most = 1000
    private var entries: [String: Entry] = [:]

    package init() {}

    /// Counts a warning.
    ///
    /// - Parameters:
    ///   - now: the time since any fixed instant.
    ///   - quiet: the time without this text after which it is new.
    /// - Returns: the number of this occurrence if it is shown; nil if it is only counted.
    package mutating func count(_ text: String, at now: Duration, quiet: Duration) -> Int? {
        var entry = entries[text] ?? Entry(count: 0, last: now)
        if now - entry.last > quiet { entry.count = 0 }
        entry.count += 1
        entry.last = now
        if entries.count >= Self.most, entries[text] == nil,
            let oldest = entries.min(by: { $0.value.last < $1.value.last })
        {
            entries[oldest.key] = nil
        }
        entries[text] = entry
        return entry.count <= 2 || Self.isPowerOfTen(entry.count) ? entry.count : nil
    }

    private static func isPowerOfTen(_ number: Int) -> Bool {
        var rest = number
        while rest % 10 == 0 { rest /= 10 }
        return rest == 1
    }
}

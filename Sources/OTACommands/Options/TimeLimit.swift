import ArgumentParser
import OTAFirmware

/// The value of `--timeout`: a number of seconds, or a number with the unit `s`, `m` or `h`.
struct TimeLimit: Sendable {
    let duration: Duration

    private static let unitSeconds: [Character: Double] = ["s": 1, "m": 60, "h": 3600]
    /// A week, in seconds.
    private static let most = 7.0 * 86400

    /// - Parameter rest: the default, as a sentence.
    static func help(_ rest: String) -> ArgumentHelp {
        ArgumentHelp("Stop after this time, such as 30s, 10m or 2h. \(rest)", valueName: "duration")
    }

    /// Nil for any other text, and for 0 or more than a week.
    init?(_ text: String) {
        let unitSeconds = text.last.flatMap { Self.unitSeconds[$0] }
        let number = unitSeconds == nil ? text[...] : text.dropLast()
        let parts = number.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(UInt8.isDigit) }), let value = Double(number) else {
            return nil
        }
        let seconds = value * (unitSeconds ?? 1)
        guard seconds > 0, seconds <= Self.most else { return nil }
        duration = .seconds(seconds)
    }

    /// - Throws: `ValidationError`, which names the value and what is expected.
    init(option text: String) throws {
        guard let limit = TimeLimit(text) else {
            throw ValidationError(
                "'\(text)' is not a duration: --timeout takes a number of seconds, or a number with s, m or h, above 0 and at most "
                    + "168h; for example --timeout 10m.")
        }
        self = limit
    }
}

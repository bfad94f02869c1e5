package import ArgumentParser

/// The value of `--timeout`: a number of seconds, or a number with the unit `s`, `m` or `h`.
package struct TimeLimit: Sendable {
    package let duration: Duration

    private static let unitSeconds: [Character: Double] = ["s": 1, "m": 60, "h": 3600]
    /// The maximum duration in seconds, which is one week.
    private static let maximum = 7.0 * 86400

    /// Returns the help text of a `--timeout` option.
    ///
    /// - Parameters:
    ///   - effect: the effect of the option, such as `Stop after this time`.
    ///   - usual: the default, such as `10s`.
    package static func help(_ effect: String, _ usual: String) -> ArgumentHelp {
        ArgumentHelp(
            "\(effect) (example: 10m); default: \(usual).",
            discussion: "A number with s, m or h, or a number of seconds, at most 168h.", valueName: "duration")
    }

    /// Parses a duration. Returns nil for 0, for more than a week, and for text in another format.
    package init?(_ text: String) {
        let unitSeconds = text.last.flatMap { Self.unitSeconds[$0] }
        let number = unitSeconds == nil ? text[...] : text.dropLast()
        let parts = number.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.allSatisfy({ !$0.isEmpty && $0.utf8.allSatisfy(UInt8.isDigit) }), let value = Double(number) else {
            return nil
        }
        let seconds = value * (unitSeconds ?? 1)
        guard seconds > 0, seconds <= Self.maximum else { return nil }
        duration = .seconds(seconds)
    }

    /// Parses the value of `--timeout`.
    ///
    /// - Throws: `ValidationError`. Its message contains the value and the expected format.
    package init(option text: String) throws {
        guard let limit = TimeLimit(text) else {
            throw ValidationError(
                "'\(text)' is not a duration: expected a number of seconds, or a number with s, m or h, above 0 and at most 168h "
                    + "(example: --timeout 10m).")
        }
        self = limit
    }
}

/// Parses option values that are whole numbers.
package enum WholeNumber {
    /// Returns a function that parses a whole number in a range. If the text is not such a number, the returned function throws an error
    /// that contains the range.
    package static func `in`<Number: FixedWidthInteger & Sendable>(
        _ range: ClosedRange<Number>
    ) -> @Sendable (String) throws -> Number {
        { text in
            guard let number = Number(text), range.contains(number) else {
                throw ValidationError("expected a whole number from \(range.lowerBound) to \(range.upperBound).")
            }
            return number
        }
    }
}

extension ParsableArguments {
    /// Parses the value of a text option.
    ///
    /// - Throws: a usage failure. The message contains the value. The hint contains the expected format.
    static func read<Value>(
        _ text: String, _ option: String, _ rule: String, _ parse: (String) -> Value?
    ) throws(Failure) -> Value {
        guard let value = parse(text) else {
            throw Failure.usage("'\(text)' is not a valid value for --\(option)", hint: "give \(rule)")
        }
        return value
    }

    /// Parses the value of an optional text option. Returns nil if `text` is nil.
    static func read<Value>(
        _ text: String?, _ option: String, _ rule: String, _ parse: (String) -> Value?
    ) throws(Failure) -> Value? {
        guard let text else { return nil }
        let value: Value = try read(text, option, rule, parse)
        return value
    }
}

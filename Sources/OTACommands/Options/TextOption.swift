import ArgumentParser

extension ParsableArguments {
    /// Parses the value of a text option.
    ///
    /// - Throws: a usage failure that names the value and the expected format.
    static func read<Value>(
        _ text: String, _ option: String, _ rule: String, _ parse: (String) -> Value?
    ) throws(Failure) -> Value {
        guard let value = parse(text) else {
            throw Failure.usage("'\(text)' is not a valid value for --\(option)", hint: "give \(rule)")
        }
        return value
    }

    /// Parses the value of an optional text option.
    static func read<Value>(
        _ text: String?, _ option: String, _ rule: String, _ parse: (String) -> Value?
    ) throws(Failure) -> Value? {
        guard let text else { return nil }
        let value: Value = try read(text, option, rule, parse)
        return value
    }
}

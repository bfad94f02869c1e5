import ArgumentParser

extension ParsableArguments {
    /// The value of a text option.
    ///
    /// - Throws: a usage failure that says what the text must be.
    static func read<Value>(
        _ text: String, _ option: String, _ rule: String, _ parse: (String) -> Value?
    ) throws(Failure) -> Value {
        guard let value = parse(text) else {
            throw Failure.usage("'\(text)' is not a value for --\(option)", hint: "give \(rule)")
        }
        return value
    }

    /// The same, of one that may be left out.
    static func read<Value>(
        _ text: String?, _ option: String, _ rule: String, _ parse: (String) -> Value?
    ) throws(Failure) -> Value? {
        guard let text else { return nil }
        let value: Value = try read(text, option, rule, parse)
        return value
    }
}

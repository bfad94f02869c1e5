/// The options that control the output of a command.
struct OutputSettings: Sendable {
    var format = OutputFormat.text
    var progress = ProgressStyle.auto
    var isQuiet = false
    var isVerbose = false
    /// True if the command can take minutes.
    var isLong = false
}

extension OutputSettings {
    /// Reads the settings from arguments that could not be parsed, so that the error has the requested format.
    init(scanning arguments: [String]) {
        format = Self.value(of: "--format", in: arguments) ?? .text
        progress = Self.value(of: "--progress", in: arguments) ?? .auto
        isQuiet = arguments.contains("--quiet")
        isVerbose = arguments.contains("--verbose")
    }

    /// Returns the value of an option. If the option is repeated, the last value counts, as in argument-parser.
    private static func value<Value: RawRepresentable<String>>(of name: String, in arguments: [String]) -> Value? {
        let words = Array(arguments.prefix { $0 != "--" })
        var value: Value?
        for (index, word) in words.enumerated() {
            if word == name, index + 1 < words.count { value = Value(rawValue: words[index + 1]) ?? value }
            if word.hasPrefix(name + "=") { value = Value(rawValue: String(word.dropFirst(name.count + 1))) ?? value }
        }
        return value
    }
}

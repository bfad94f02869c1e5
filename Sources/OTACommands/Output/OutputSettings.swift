/// How much is said, and in which form.
struct OutputSettings: Sendable {
    var format = OutputFormat.text
    var progress = ProgressStyle.auto
    var isQuiet = false
    var isVerbose = false
    /// The command may take minutes.
    var isLong = false
}

extension OutputSettings {
    /// What can be told of arguments that could not be parsed: the error, too, is to be in the form that was asked for.
    init(scanning arguments: [String]) {
        format = Self.value(of: "--format", in: arguments) ?? .text
        progress = Self.value(of: "--progress", in: arguments) ?? .auto
        isQuiet = arguments.contains("--quiet")
        isVerbose = arguments.contains("--verbose")
    }

    /// As for argument-parser, the last one counts.
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

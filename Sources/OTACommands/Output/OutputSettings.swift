/// How much is said, and in which form.
struct OutputSettings: Sendable {
    var format = OutputFormat.text
    var progress = ProgressStyle.auto
    var isQuiet = false
    var isVerbose = false
}

extension OutputSettings {
    /// What can be told of arguments that could not be parsed: the error, too, is to be in the form that was asked for.
    init(scanning arguments: [String]) {
        format = Self.value(of: "--format", in: arguments) ?? .text
        progress = Self.value(of: "--progress", in: arguments) ?? .auto
        isQuiet = arguments.contains("--quiet")
        isVerbose = arguments.contains("--verbose")
    }

    private static func value<Value: RawRepresentable<String>>(of name: String, in arguments: [String]) -> Value? {
        for (index, argument) in arguments.enumerated() {
            if argument == "--" { return nil }
            if argument == name, index + 1 < arguments.count { return Value(rawValue: arguments[index + 1]) }
            if argument.hasPrefix(name + "=") { return Value(rawValue: String(argument.dropFirst(name.count + 1))) }
        }
        return nil
    }
}

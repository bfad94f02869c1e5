import ArgumentParser

enum OutputFormat: String, ExpressibleByArgument, CaseIterable, Sendable {
    case text, json
}

enum ProgressStyle: String, ExpressibleByArgument, CaseIterable, Sendable {
    case auto, bar, lines, json, none
}

/// What every command takes.
struct OutputOptions: ParsableArguments {
    @Option(help: "The answer on stdout: for people (text), or one JSON object (json).")
    var format = OutputFormat.text

    @Option(help: "Progress on stderr: auto is a bar on a terminal, else lines; json is one object a line.")
    var progress = ProgressStyle.auto

    @Flag(help: "Neither progress nor notes on stderr; errors only.")
    var quiet = false

    @Flag(help: "Log on stderr what is done.")
    var verbose = false
}

extension OutputOptions {
    /// What can be told of arguments that could not be parsed: the error, too, is to be in the format that was asked for.
    init(scanning arguments: [String]) {
        self.init()
        format = Self.value(of: "--format", in: arguments) ?? .text
        progress = Self.value(of: "--progress", in: arguments) ?? .auto
        quiet = arguments.contains("--quiet")
        verbose = arguments.contains("--verbose")
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

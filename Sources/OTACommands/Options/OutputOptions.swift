import ArgumentParser

enum OutputFormat: String, ExpressibleByArgument, CaseIterable, Sendable {
    case text, json
}

enum ProgressStyle: String, ExpressibleByArgument, CaseIterable, Sendable {
    case auto, bar, lines, json, none

    /// What `auto` stands for: a bar where one can be drawn, else lines, but of a command that is soon done none; nothing
    /// beside a log, which tells it all.
    func resolved(onTerminal isTerminal: Bool, isLong: Bool, _ isVerbose: Bool) -> ProgressStyle {
        guard self == .auto else { return self }
        if isVerbose { return .none }
        return isTerminal && Environment.value("TERM") != "dumb" ? .bar : isLong ? .lines : .none
    }
}

/// What every command takes.
struct OutputOptions: ParsableArguments {
    @Option(help: "The answer on stdout: for people (text), or one JSON object (json).")
    var format = OutputFormat.text

    @Option(help: "Progress on stderr: auto is a bar on a terminal, else, of a push, lines; json is one object a line.")
    var progress = ProgressStyle.auto

    @Flag(help: "Neither progress nor notes on stderr; errors only.")
    var quiet = false

    @Flag(help: "Log on stderr what is done.")
    var verbose = false
}

extension OutputOptions {
    var settings: OutputSettings {
        OutputSettings(format: format, progress: progress, isQuiet: quiet, isVerbose: verbose)
    }
}

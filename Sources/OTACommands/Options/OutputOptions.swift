import ArgumentParser
import OTAClient

/// The format of the result on stdout.
enum OutputFormat: String, ExpressibleByArgument, CaseIterable, Sendable {
    case text, json
}

/// The style of progress on stderr.
enum ProgressStyle: String, ExpressibleByArgument, CaseIterable, Sendable {
    case auto, bar, lines, json, none

    /// Replaces `auto` with a style: none with `--verbose`, a bar on a terminal, else lines for a long command and none for the
    /// others. The log of `--verbose` contains the progress.
    func resolved(onTerminal isTerminal: Bool, isLong: Bool, _ isVerbose: Bool) -> ProgressStyle {
        guard self == .auto else { return self }
        if isVerbose { return .none }
        return isTerminal && Environment.value("TERM") != "dumb" ? .bar : isLong ? .lines : .none
    }
}

/// The output options of every command.
struct OutputOptions: ParsableArguments {
    @Option(help: "The format of the result on stdout; json is one JSON object.")
    var format = OutputFormat.text

    @Option(
        help: "Progress on stderr; auto: a bar on a terminal, else lines for push and scan; json: one object per line.")
    var progress = ProgressStyle.auto

    @Flag(help: "Print only errors and warnings on stderr, no progress or notes.")
    var quiet = false

    @Flag(help: "Print a log on stderr.")
    var verbose = false
}

extension OutputOptions {
    var settings: OutputSettings {
        OutputSettings(format: format, progress: progress, isQuiet: quiet, isVerbose: verbose)
    }
}

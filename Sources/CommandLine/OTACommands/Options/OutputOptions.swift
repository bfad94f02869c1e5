import ArgumentParser
import OTAClient
import SystemPackage

/// The format of the result on stdout.
enum OutputFormat: String, ExpressibleByArgument, CaseIterable, Sendable {
    case text, json
}

/// The style of the progress output on stderr.
enum ProgressStyle: String, ExpressibleByArgument, CaseIterable, Sendable {
    case auto, bar, lines, json, none

    /// Returns the style that replaces `auto`.
    ///
    /// With `--verbose`, the style is `none`, because the log contains the progress. Without `--verbose`, the style is `bar` on a terminal
    /// whose `TERM` is not `dumb`. On a `dumb` terminal, or if stderr is not a terminal, the style is `lines` for a long command and `none`
    /// for other commands.
    func resolved(onTerminal isTerminal: Bool, isLong: Bool, _ isVerbose: Bool) -> ProgressStyle {
        guard self == .auto else { return self }
        if isVerbose { return .none }
        return isTerminal && Environment.value("TERM") != "dumb" ? .bar : isLong ? .lines : .none
    }
}

/// The output options of every command.
package struct OutputOptions: ParsableArguments {
    package init() {}

    @Option(help: "The result on stdout.")
    var format = OutputFormat.text

    @Option(
        help: ArgumentHelp(
            "The progress on stderr.",
            discussion:
                "auto is bar on a terminal. Without a terminal, auto is lines for push and scan, and none for the other "
                + "commands. json writes one object on each line for each event.",
            valueName: "style"))
    var progress = ProgressStyle.auto

    @Flag(help: "Print only errors and warnings on stderr.")
    var quiet = false

    @Flag(
        help: ArgumentHelp(
            "Print a log on stderr, in place of the progress.",
            discussion: "With --progress, the progress is also printed."))
    var verbose = false

    @Option(
        help: ArgumentHelp(
            "Append a log without firmware bytes and secrets to this file, for a bug report.",
            discussion:
                "The log contains the versions of otaflash and its libraries, the arguments, and every packet without the "
                + "firmware's bytes. It contains no private keys, passphrases, PINs or passkeys.",
            valueName: "file"),
        completion: .file())
    var log: String?

    @Option(
        help: ArgumentHelp(
            "Also write the result to this file, even after a failure. The name ends with .json, for push also .xml.",
            discussion:
                "A .json file has the object of --format json. A .xml file has a test case for each step of the update, such as "
                + "the upload.",
            valueName: "file"),
        completion: .file(extensions: ["json", "xml"]))
    var report: String?
}

extension OutputOptions {
    package func validate() throws {
        guard let report, Self.areSame(log, report) else { return }
        throw ValidationError("--log and --report name the same file '\(report)'.")
    }

    /// Returns whether two options name the same file; false if one of them was not given.
    static func areSame(_ first: String?, _ second: String?) -> Bool {
        guard let first, let second else { return false }
        return FilePath(first).lexicallyNormalized() == FilePath(second).lexicallyNormalized()
    }

    /// Refuses `--log` or `--report` if the option names a file that the command writes itself.
    ///
    /// A command calls this function in `validate()`, before otaflash opens the log or writes the report.
    ///
    /// - Parameters:
    ///   - name: the name of the file in the error message, such as its option.
    ///   - path: the path of the file; nil if the command does not write the file.
    func refuse(_ name: String, at path: String?) throws(ValidationError) {
        for (option, other) in [("--log", log), ("--report", report)] {
            guard let other, Self.areSame(path, other) else { continue }
            throw ValidationError("\(name) and \(option) name the same file '\(other)'.")
        }
    }

    var settings: OutputSettings {
        OutputSettings(format: format, progress: progress, isQuiet: quiet, isVerbose: verbose)
    }
}

/// The options that control the output of a command.
struct OutputSettings: Sendable {
    var format = OutputFormat.text
    var progress = ProgressStyle.auto
    var isQuiet = false
    var isVerbose = false
    /// True if the command can run for minutes.
    var isLong = false
    /// The address of the device, as the user gave it; nil if the command has no device or several devices.
    var device: String?
}

extension OutputSettings {
    /// Reads the settings from arguments that are not parsed. The version, the help and the errors of argument-parser then have the
    /// requested format.
    init(scanning arguments: [String]) {
        format = Self.value(of: "--format", in: arguments) ?? .text
        progress = Self.value(of: "--progress", in: arguments) ?? .auto
        isQuiet = arguments.contains("--quiet")
        isVerbose = arguments.contains("--verbose")
        let devices = Self.values(of: "--device", in: arguments)
        device = devices.count == 1 ? devices[0] : nil
    }

    /// Returns the value of an option. If the option is repeated, which is an error, the last valid value is used.
    private static func value<Value: RawRepresentable<String>>(of name: String, in arguments: [String]) -> Value? {
        values(of: name, in: arguments).compactMap { Value(rawValue: $0) }.last
    }

    private static func values(of name: String, in arguments: [String]) -> [String] {
        let words = Array(arguments.prefix { $0 != "--" })
        return words.indices.compactMap { index in
            if words[index] == name { return index + 1 < words.count ? words[index + 1] : nil }
            return words[index].hasPrefix(name + "=") ? String(words[index].dropFirst(name.count + 1)) : nil
        }
    }
}

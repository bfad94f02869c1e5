import Logging
import SystemPackage

/// All that is said: the answer on stdout and nothing else there, the rest on stderr.
struct Console: Sendable {
    let format: OutputFormat
    /// Never `auto`.
    let style: ProgressStyle
    let isQuiet: Bool
    let look: TerminalLook
    /// The log of `--verbose`.
    let logger: Logger

    init(_ settings: OutputSettings) {
        let isTerminal = StandardStream.error.isTerminal
        format = settings.format
        let auto = settings.progress.resolved(
            onTerminal: isTerminal, isLong: settings.isLong, settings.isVerbose)
        let style = settings.isQuiet ? .none : auto
        self.style = style
        isQuiet = settings.isQuiet
        look = TerminalLook(ofTerminal: isTerminal)
        logger = Logger(label: "otaflash") { _ -> any LogHandler in
            settings.isVerbose ? StandardErrorLog(asEvents: style == .json) : SwiftLogNoOpLogHandler() as any LogHandler
        }
    }

    /// - Throws: where stdout takes no more.
    func answer(_ answer: some Answer, to command: String) throws {
        switch format {
        case .text: if !answer.text.isEmpty { try say(answer.text.printable) }
        case .json:
            let failure = answer.failure
            try say(
                JSON.line(
                    JSONObject(
                        command: command, exit: failure?.exit ?? .done, members: answer,
                        failure: failure.map { JSONFailure($0) })))
        }
    }

    /// Text that was asked for as it is, such as a help page.
    func say(_ text: String) throws {
        do throws(Errno) {
            try StandardStream.output.write(text + "\n")
        } catch {
            throw Failure(
                "write-failed", .inputOutput, "the answer could not be written to standard output: \(error)",
                hint: "see where it goes: the reader may have ended, or the disk may be full")
        }
    }

    /// Said to people on stderr; to scripts too, as an object on stdout or as an event, where they asked for one.
    func fail(_ failure: Failure, of command: String) {
        if format == .json,
            let line = try? JSON.line(JSONObject(command: command, exit: failure.exit, members: JSONFailure(failure)))
        {
            // A stdout that takes no more is not worth a second failure.
            try? StandardStream.output.write(line + "\n")
        }
        tell(failure)
    }

    /// Said to people, and as an event to scripts that asked for events.
    func tell(_ failure: Failure) {
        if style == .json { return write(ProgressEvent(failure)) }
        tell(look.red("error:"), failure.message.printableLine)
        if !failure.usage.isEmpty { write(failure.usage.printable) }
        tell(look.cyan("hint:"), failure.hint.printable)
    }

    /// What is worth knowing, and no failure.
    func note(_ text: String) {
        guard !isQuiet else { return }
        if style == .json {
            write(ProgressEvent(.note, message: text))
        } else {
            tell(look.dim("note:"), text.printableLine)
        }
    }

    /// Said even to who wants quiet.
    func warn(_ text: String) {
        if style == .json {
            write(ProgressEvent(.note, message: text))
        } else {
            tell(look.yellow("warning:"), text.printableLine)
        }
    }

    /// For `--verbose`.
    func debug(_ text: @autoclosure () -> String) { logger.debug("\(text())") }

    private func tell(_ label: String, _ text: String) {
        // A bar may stand on this line.
        write("\(style == .bar ? TerminalLook.startOfLine : "")otaflash: \(label) \(text)")
    }

    private func write(_ line: String) { try? StandardStream.error.write(line + "\n") }

    private func write(_ event: ProgressEvent) {
        if let line = try? JSON.line(event) { write(line) }
    }

    /// Shows a session's progress in the style that was asked for.
    var renderer: (any ProgressRenderer)? {
        switch style {
        case .none, .auto: nil
        case .json: ProgressEvents { write($0) }
        case .lines: ProgressLines { write($0.printable) }
        case .bar:
            ProgressBar(look: look, columns: { StandardStream.error.columns ?? 80 }) {
                try? StandardStream.error.write($0)
            }
        }
    }
}

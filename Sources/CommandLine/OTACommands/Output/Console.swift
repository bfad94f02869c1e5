import DescriptorIO
package import Logging
import OTAClient
import OTAFirmware
import SystemPackage

/// The output of a command. Only the result is written to stdout. All other output is written to stderr.
package struct Console: Sendable {
    let format: OutputFormat
    /// True if the result is printed as text; false: as JSON.
    package var isText: Bool { format == .text }
    /// The style of the progress, which is never `auto`.
    let style: ProgressStyle
    let isQuiet: Bool
    /// The address of the device, as the user gave it; nil if the console is not for one device.
    private(set) var device: String?
    /// True if the console is for one of several devices. Its notes and warnings then name the device.
    private var isForOneOfSeveral = false
    let terminal: TerminalCapabilities
    /// The log of `--verbose` and `--log`.
    package private(set) var logger: Logger
    /// The part of the frames with bytes of the update that the log has.
    var loggedData: LoggedData
    /// The durations of the phases, for a JUnit report.
    private(set) var phases = PhaseTimes()
    /// The warnings so far, each once, for the result.
    private(set) var warnings = Warnings()
    /// The destination of the log; nil if the command has no log, or only the log of `--verbose`.
    private let log: (any LogOutput)?

    init(_ settings: OutputSettings, log: (any LogOutput)? = nil) {
        let isTerminal = StandardStream.error.isTerminal
        format = settings.format
        let auto = settings.progress.resolved(
            onTerminal: isTerminal, isLong: settings.isLong, settings.isVerbose)
        let style = settings.isQuiet ? .none : auto
        self.style = style
        isQuiet = settings.isQuiet
        device = settings.device
        self.log = log
        // The memory of a push has no place for the frames with the image: the lines before them would be lost.
        loggedData = log is LogFile ? .lengths : .nothing
        terminal = TerminalCapabilities(ofTerminal: isTerminal)
        logger = Logger(label: "otaflash") { _ -> any LogHandler in
            settings.isVerbose || log != nil
                ? CommandLog(settings, asEvents: style == .json, output: log)
                : SwiftLogNoOpLogHandler() as any LogHandler
        }
    }

    /// Returns the console for one of several devices. Its lines and events name this device.
    func of(_ device: String) -> Console {
        var console = self
        console.device = device
        console.isForOneOfSeveral = true
        console.phases = PhaseTimes()
        console.warnings = Warnings()
        console.logger[metadataKey: CommandLog.deviceKey] = "\(device)"
        return console
    }

    /// Writes the result to stdout.
    ///
    /// - Parameter failure: the failure to report with the result; nil if the command succeeded.
    /// - Throws: `Failure` with the code `write-failed`.
    func answer(_ answer: some CommandAnswer, to command: String, failure: Failure?) throws {
        answer.lines.forEach { record("result", $0.rendered(hasColours: false)) }
        switch format {
        case .text: try printLines(StandardStream.output.columns.map(answer.lines(fitting:)) ?? answer.lines)
        case .json:
            let line = try object(answer, to: command, failure: failure)
            try printLines { (writer) throws(Errno) in try writer.write(line) }
        }
    }

    /// Returns the JSON object of a result.
    ///
    /// - Parameter failure: the failure to report with the result; nil if the command succeeded.
    func object(_ answer: some CommandAnswer, to command: String, failure: Failure?) throws -> JSONLine {
        try JSONLine(
            JSONObject(
                command: command, device: answer.describesDevice ? nil : device, exit: failure?.exit ?? .done,
                warnings: warnings.texts, members: answer, failure: failure.map { JSONFailure($0) }))
    }

    /// Returns the JSON object of a failure without a result.
    func object(_ failure: Failure, of command: String) throws -> JSONLine {
        try JSONLine(
            JSONObject(
                command: command, device: device, exit: failure.exit, warnings: warnings.texts,
                members: JSONFailure(failure)))
    }

    /// Writes lines to stdout.
    ///
    /// - Throws: `Failure` with the code `write-failed`.
    package func printLines(_ lines: [TerminalLine]) throws {
        guard !lines.isEmpty else { return }
        try printLines { (writer) throws(Errno) in try writer.write(lines.map { .line($0) }) }
    }

    private func printLines(_ write: (TerminalWriter) throws(Errno) -> Void) throws {
        do throws(Errno) {
            try write(StandardStream.output.writer)
        } catch {
            throw Failure(
                "write-failed", .inputOutput, "cannot write the result to standard output: \(error)",
                hint: "check the destination of the output: the reader may have ended, or the disk may be full")
        }
    }

    /// Reports the failure of a command on stderr and, with `--format json`, as the JSON object on stdout.
    func fail(_ failure: Failure, of command: String) {
        if format == .json, let line = try? object(failure, of: command) {
            // A write error on stdout is ignored, because `failure` is more important to the user.
            try? StandardStream.output.writer.write(line)
        }
        report(failure)
    }

    /// Reports a failure on stderr, as text or as a JSON event.
    func report(_ failure: Failure) {
        record("error", "\(failure.code): \(failure.message)")
        failure.hints.forEach { record("hint", $0) }
        if style == .json { return write(ProgressEvent(failure)) }
        write(failure.code, failure.message)
        failure.usage.forEach { write(TerminalLine($0)) }
        failure.hints.forEach { writeLine(TerminalLine("hint:", .cyan), $0) }
    }

    /// Reports at once that the push to this device failed. The result repeats the failure, with the next steps.
    func reportDevice(_ failure: Failure) {
        record("error", "\(failure.code): \(failure.message)")
        if style == .json { return write(ProgressEvent(failure)) }
        write(failure.code, named(failure.message))
    }

    /// Writes the message of a failure with its code: docs/errors.md is sorted by the codes.
    private func write(_ code: String, _ message: String) {
        writeLine(TerminalLine("error [\(code)]:", .red), message)
    }

    /// Writes a note to stderr, as text or as a JSON event. `--quiet` suppresses notes.
    package func note(_ text: String) {
        record("note", text)
        guard !isQuiet else { return }
        if style == .json {
            write(ProgressEvent(.note, message: text))
        } else {
            writeLine(TerminalLine("note:", .dim), named(text))
        }
    }

    /// Writes a warning to stderr, as text or as a JSON event. `--quiet` does not suppress warnings.
    package func warn(_ text: String, hint: String? = nil) {
        warnings.add(text)
        record("warning", text)
        if let hint { record("hint", hint) }
        if style == .json {
            var event = ProgressEvent(.warning, message: text)
            event.hint = hint
            write(event)
        } else {
            writeLine(TerminalLine("warning:", .yellow), named(text))
            if let hint { writeLine(TerminalLine("hint:", .cyan), hint) }
        }
    }

    /// Adds the device to a text, if the command has several devices. A JSON event has its own member for the device.
    private func named(_ text: String) -> String {
        guard isForOneOfSeveral, let device else { return text }
        return "\(device): \(text)"
    }

    /// Writes a line to the log of `--verbose` and `--log`.
    package func debug(_ text: @autoclosure () -> String) { logger.debug("\(text())") }

    /// Writes a value of a characteristic to the log.
    func frame(_ direction: String, _ channel: String, _ value: [UInt8]) {
        logger.trace("\(direction) \(channel) \(Hex.encode(value))")
    }

    /// Writes the exit status to the log.
    func ended(_ status: ExitStatus) { record("exit", "\(status.rawValue)") }

    /// Removes the lines about this device from the log of a push without `--log`, because the device was updated.
    func removeRecentLog() {
        if let device { (log as? RecentLog)?.remove(device) }
    }

    /// Writes an output of the command to the log.
    private func record(_ level: String, _ text: String) {
        log?.write(LogEntry(level: level, device: isForOneOfSeveral ? device : nil, text: text))
    }

    private func writeLine(_ label: TerminalLine, _ text: String) {
        let line = "otaflash: " + label + TerminalLine(" " + text)
        // The cursor can be in the line of a progress bar, which must be erased first.
        write(style == .bar ? [.startOfLine, .line(line)] : [.line(line)])
    }

    private func write(_ line: TerminalLine) { write([.line(line)]) }

    /// Writes text and control sequences to stderr.
    func write(_ pieces: [TerminalPiece]) {
        var writer = StandardStream.error.writer
        writer.hasColours = terminal.hasColours
        try? writer.write(pieces)
    }

    private func write(_ event: ProgressEvent) {
        var event = event
        event.device = device.map { GivenDevice(given: $0) }
        if let line = try? JSONLine(event) { try? StandardStream.error.writer.write(line) }
    }

    /// The renderer that shows the progress of a session in the selected style; nil if no progress is shown.
    var renderer: (any ProgressRenderer)? {
        switch style {
        case .none, .auto: nil
        case .json: ProgressEvents { write($0) }
        case .lines: ProgressLines(device: device) { write($0) }
        case .bar:
            ProgressBar(terminal: terminal, columns: { StandardStream.error.columns ?? 80 }) { write($0) }
        }
    }
}

/// The warnings of a command, or of one of several devices, for the result.
final class Warnings: Sendable {
    /// The maximum number of warnings: a gateway runs for years, and the records of others cause some of its warnings.
    private static let most = 100
    private let list = Guarded<[String]>([])

    /// Adds a warning, unless the list has it already or is full.
    func add(_ text: String) {
        list.with { if $0.count < Self.most, !$0.contains(text) { $0.append(text) } }
    }

    /// The first 100 different warnings, in order.
    var texts: [String] { list.with { $0 } }
}

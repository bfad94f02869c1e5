package import ArgumentParser
import Glibc

/// A command that computes a result from its arguments. `perform(_:)` prints the result or the failure.
package protocol Command: ParsableCommand {
    associatedtype Answer: CommandAnswer
    /// The full name on the command line, such as `simulate create`.
    static var name: String { get }
    /// True if the command can run for minutes. Such a command reports progress even if stderr is not a terminal.
    static var isLong: Bool { get }
    /// True if the command performs an update in phases. Only such a command can write a JUnit report.
    static var hasPhases: Bool { get }
    var options: OutputOptions { get }
    /// The user's arguments, for the command lines in hints.
    var invocation: Invocation { get }
    /// The address of the device, as the user gave it; nil if the command has no device or several devices.
    var device: String? { get }
    /// The time limit of `--timeout` for the whole command; nil if the command has no limit.
    var limit: Duration? { get }
    /// True if a failure without a result must not replace the file of `--report`.
    var keepsReport: Bool { get }

    func answer(_ console: Console) async throws -> Answer
}

extension Command {
    package static var isLong: Bool { false }
    package static var hasPhases: Bool { false }
    package var invocation: Invocation { Invocation(command: Self.name) }
    package var device: String? { nil }
    package var limit: Duration? { nil }
    package var keepsReport: Bool { false }

    /// Runs the command and prints its result or failure.
    ///
    /// - Parameter arguments: the user's arguments, for the log.
    func perform(_ arguments: [String]) async -> ExitStatus {
        if let limit { Watchdog.start(limit: limit) }
        var settings = options.settings
        settings.isLong = Self.isLong
        settings.device = device
        var console = Console(settings)
        var report: ReportFile?
        var recent: RecentLog?
        do throws(Failure) {
            if let path = options.log {
                let file = try LogFile(path) { [console] error in
                    console.warn("cannot write the log \(path): \(error). The command continues without it.")
                }
                console = Console(settings, log: file)
            } else if Self.hasPhases {
                let log = RecentLog()
                console = Console(settings, log: log)
                recent = log
            }
            if let path = options.report { report = try ReportFile(path, hasPhases: Self.hasPhases) }
        } catch {
            console.fail(error, of: Self.name)
            return error.exit
        }
        console.debug(LoggedArguments.text(arguments))
        console.debug("versions: \(PartVersions().text)")
        console.debug("environment: \(LoggedArguments.environment)")
        let status = await perform(console, reportingTo: report, recent)
        console.ended(status)
        return status
    }

    /// - Parameter recent: the log to save after a failure; nil: none.
    private func perform(
        _ console: Console, reportingTo report: ReportFile?, _ recent: RecentLog?
    ) async -> ExitStatus {
        let answer: Answer
        do { answer = try await self.answer(console) } catch {
            var failure = Failure(error, in: invocation)
            // Before the session, the failure has no log of its own: the message is complete.
            if console.phases.isInSession { recent?.save(after: &failure) }
            if !keepsReport, let unwritten = write(report, failure, console) {
                console.warn(unwritten.message, hint: unwritten.hint)
            }
            console.fail(failure, of: Self.name)
            return failure.exit
        }
        var failure = answer.failure
        if var failed = failure {
            recent?.save(after: &failed)
            failure = failed
        }
        // If the report cannot be written, the command has failed.
        if let unwritten = write(report, answer, failure, console) {
            if failure == nil { failure = unwritten } else { console.warn(unwritten.message, hint: unwritten.hint) }
        }
        do {
            try console.answer(answer, to: Self.name, failure: failure)
            guard let failure else { return .done }
            console.report(failure)
            return failure.exit
        } catch {
            let failure = Failure(error, in: invocation)
            // The failed output changes the exit status of the process. So the report is written again, with the new exit status.
            _ = write(report, failure, console)
            console.fail(failure, of: Self.name)
            return failure.exit
        }
    }

    /// Writes the result to the file of `--report`. Returns a failure if the report cannot be written. Returns nil if the report was
    /// written or the option was not given.
    private func write(
        _ report: ReportFile?, _ answer: Answer, _ failure: Failure?, _ console: Console
    ) -> Failure? {
        write(report, console, exit: failure?.exit) {
            answer.testCases
                ?? JUnitReport.cases(
                    console.phases, failure: failure, lines: answer.lines, warnings: console.warnings.texts)
        } json: {
            try console.object(answer, to: Self.name, failure: failure)
        }
    }

    /// Writes the failure of the command to the file of `--report`. Returns another failure if the report cannot be written. Returns nil if
    /// the report was written or the option was not given.
    private func write(_ report: ReportFile?, _ failure: Failure, _ console: Console) -> Failure? {
        write(report, console, exit: failure.exit) {
            JUnitReport.cases(console.phases, failure: failure, lines: [], warnings: console.warnings.texts)
        } json: {
            try console.object(failure, of: Self.name)
        }
    }

    private func write(
        _ report: ReportFile?, _ console: Console, exit: ExitStatus?, cases: () -> [JUnitReport.Case],
        json: () throws -> JSONLine
    ) -> Failure? {
        guard let report else { return nil }
        do {
            switch report.format {
            case .json: try report.write(json().text)
            case .junit:
                var properties = [("device", console.device), ("file", invocation.file)].compactMap { name, value in
                    value.map { (name: name, value: $0) }
                }
                properties += console.warnings.texts.map { ("warning", $0) }
                properties.append(("exit", "\((exit ?? .done).rawValue)"))
                try report.write(JUnitReport(command: Self.name, cases: cases(), properties: properties).text)
            }
            return nil
        } catch {
            return Failure(error, in: invocation)
        }
    }
}

/// A command for one device. `--timeout` limits the duration of the command.
protocol DeviceCommand: Command {
    var target: DeviceOptions { get }
}

extension DeviceCommand {
    var device: String? { target.device }
    var limit: Duration? { target.limit }
}

/// Ends the process ``grace`` after the limit of `--timeout`, even if an operation blocks, such as a write to a stopped terminal.
private enum Watchdog {
    /// The time after the limit of `--timeout` in which a command can stop by itself and report the timeout. A session stops within 2 s.
    private static let grace = Duration.seconds(4)

    /// Starts the watchdog. Call this function only once. The watchdog is a kernel timer, because a blocked write can block all threads
    /// that run Swift tasks.
    static func start(limit: Duration) {
        signal(SIGALRM) { _ in _exit(ExitStatus.linkLost.rawValue) }
        alarm(UInt32((limit + grace).components.seconds))
    }
}

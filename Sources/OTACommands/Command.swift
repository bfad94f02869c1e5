import ArgumentParser
import Glibc

/// A command that computes an answer from its arguments. `perform()` prints the answer or the failure.
protocol Command: ParsableCommand {
    associatedtype Answer: CommandAnswer
    /// The full name on the command line, such as `simulate create`.
    static var name: String { get }
    /// True if the command can take minutes: it then reports progress even if stderr is not a terminal.
    static var isLong: Bool { get }
    var options: OutputOptions { get }
    /// The arguments of the user, for hints.
    var invocation: Invocation { get }
    /// The address of the device, as the user gave it; nil: the command has no device.
    var device: String? { get }
    /// The limit of `--timeout` for the whole command; nil: no limit.
    var limit: Duration? { get }

    func answer(_ console: Console) async throws -> Answer
}

extension Command {
    static var isLong: Bool { false }
    var invocation: Invocation { Invocation(command: Self.name) }
    var device: String? { nil }
    var limit: Duration? { nil }

    /// Performs the command.
    ///
    /// - Parameter arguments: the arguments of the user, for the log.
    func perform(_ arguments: [String]) async -> ExitStatus {
        if let limit { Watchdog.start(limit: limit) }
        var settings = options.settings
        settings.isLong = Self.isLong
        settings.device = device
        var console = Console(settings)
        do {
            if let path = options.log {
                let file = try LogFile(path) { [console] error in
                    console.warn("cannot write the log \(path): \(error). The command continues without it.")
                }
                console = Console(settings, log: file)
            }
        } catch {
            console.fail(error, of: Self.name)
            return error.exit
        }
        console.debug(LoggedArguments.text(arguments))
        console.debug("versions: \(PartVersions().text)")
        console.debug("environment: \(LoggedArguments.environment)")
        let status = await perform(console)
        console.ended(status)
        return status
    }

    private func perform(_ console: Console) async -> ExitStatus {
        do {
            let answer = try await answer(console)
            try console.answer(answer, to: Self.name)
            guard let failure = answer.failure else { return .done }
            console.report(failure)
            return failure.exit
        } catch {
            let failure = Failure(error, in: invocation)
            console.fail(failure, of: Self.name)
            return failure.exit
        }
    }
}

/// A command for one device, limited by `--timeout`.
protocol DeviceCommand: Command {
    var target: DeviceOptions { get }
}

extension DeviceCommand {
    var device: String? { target.device }
    var limit: Duration? { target.limit }
}

/// Ends the process after the limit of `--timeout`, even if an operation blocks: a write to a stopped terminal, a FIFO, the bus.
private enum Watchdog {
    /// The time after the limit in which a command may stop by itself and report the timeout. A session stops within 2 s.
    private static let grace = Duration.seconds(4)

    /// Starts the only watchdog of the process. It is a timer of the kernel, because a blocked write can block all threads that run
    /// tasks.
    static func start(limit: Duration) {
        signal(SIGALRM) { _ in _exit(ExitStatus.linkLost.rawValue) }
        alarm(UInt32((limit + grace).components.seconds))
    }
}

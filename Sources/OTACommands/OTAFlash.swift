import ArgumentParser
import CLinux
import Glibc

/// The entry point of the command line tool.
public enum OTAFlash {
    /// Runs the tool.
    ///
    /// - Parameter arguments: the arguments, without the name of the program.
    /// - Returns: the exit status of the process.
    public static func run(_ arguments: [String]) async -> Int32 {
        StandardStream.secure()
        // The guard process has no secrets: its environment contains only the variables to find the bus.
        if arguments == [LinkGuardProcess.word] {
            await LinkGuardProcess.run()
            return ExitStatus.done.rawValue
        }
        CrashDumps.forbid()
        return await perform(arguments).rawValue
    }

    private static func perform(_ arguments: [String]) async -> ExitStatus {
        do {
            if asksForVersion(arguments) {
                try console(for: arguments).printLines([TerminalLine(Version.line)])
                return .done
            }
            if let mistyped = mistypedCommand(in: arguments) { throw mistyped }
            var command = try RootCommand.parseAsRoot(arguments)
            if let command = command as? any Command { return await command.perform(arguments) }
            if command is RootCommand || command is Simulate || command is Gatt {
                throw Failure(missingCommand: RootCommand.helpMessage(for: type(of: command)))
            }
            // The commands of argument-parser itself, such as help, throw their output.
            try command.run()
            return .done
        } catch {
            return report(error, of: arguments)
        }
    }

    private static func report(_ error: any Error, of arguments: [String]) -> ExitStatus {
        let console = console(for: arguments)
        var failure = error as? Failure
        if failure == nil, RootCommand.exitCode(for: error).isSuccess {
            do {
                try console.printLines(TerminalLine.page(RootCommand.message(for: error)))
                return .done
            } catch {
                failure = Failure(error, in: Invocation(command: ""))
            }
        }
        let message = RootCommand.message(for: error)
        let reported = failure ?? Failure(parsing: message, fullMessage: RootCommand.fullMessage(for: error))
        console.fail(reported, of: command(in: arguments))
        return reported.exit
    }

    private static func names(_ command: any ParsableCommand.Type) -> [String] {
        command.configuration.subcommands.compactMap { $0.configuration.commandName }
    }

    /// The failure for an unknown command; nil: the command exists. argument-parser would only report an unexpected argument.
    private static func mistypedCommand(in arguments: [String]) -> Failure? {
        var group: any ParsableCommand.Type = RootCommand.self
        for word in arguments {
            guard !names(group).isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            guard let next = group.configuration.subcommands.first(where: { $0.configuration.commandName == word })
            else {
                return .usage(
                    "there is no command '\(word)'", hint: "use one of: \(names(group).joined(separator: ", "))")
            }
            group = next
        }
        return nil
    }

    /// The name of the intended command, for the JSON object; empty: unknown.
    private static func command(in arguments: [String]) -> String {
        guard let index = arguments.firstIndex(where: names(RootCommand.self).contains) else { return "" }
        let next = arguments[(index + 1)...].first
        let groups: [any ParsableCommand.Type] = [Simulate.self, Gatt.self]
        guard let next,
            groups.contains(where: { $0.configuration.commandName == arguments[index] && names($0).contains(next) })
        else {
            return arguments[index]
        }
        return "\(arguments[index]) \(next)"
    }

    private static func console(for arguments: [String]) -> Console { Console(OutputSettings(scanning: arguments)) }

    /// True if the arguments ask for the version. The flag of argument-parser is not used, because `sign` and `simulate create` have
    /// their own option `--version`.
    private static func asksForVersion(_ arguments: [String]) -> Bool {
        let words = arguments.prefix { $0 != "--" }
        return words.contains("--version") && !words.contains(Sign.name) && !words.contains(SimulateCreate.word)
    }
}

/// Prevents core dumps and crash reports, which would contain keys and passphrases.
private enum CrashDumps {
    private static let fatal = [SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS]

    /// Prevents them for this process, with every `core_pattern` and every limit of the parent process. Call it first: the
    /// environment may already contain a key or a passphrase.
    static func forbid() {
        // If `core_pattern` names a program, the kernel ignores the limit. That program gets no dump of a process that is not
        // dumpable (core(5)).
        _ = clinux_set_dumpable(0)
        var limit = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
        // With SWIFT_BACKTRACE, the signal handlers of the Swift runtime start a program that writes a report. The report contains
        // memory that registers point to.
        for number in fatal {
            let before = signal(number, SIG_DFL)
            // Keep an ignored signal ignored: background jobs of a shell ignore SIGQUIT.
            if unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) { signal(number, SIG_IGN) }
        }
    }
}

/// The root of the command line.
struct RootCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "otaflash",
        abstract: "Sign firmware and update devices safely over BLE, UDP or serial.",
        discussion: """
            First run, without hardware:
              otaflash keygen release
              otaflash sign app.bin --key release.pem --product demo --version 1.1.0
              otaflash push app.bin.otaf --device sim: --trust release.pub.pem

            'otaflash --version' prints the version. \
            'otaflash --generate-completion-script bash' (or zsh, fish) prints shell completions.
            """,
        groupedSubcommands: [
            CommandGroup(name: "Firmware", subcommands: [Keygen.self, Sign.self, Verify.self, Inspect.self]),
            CommandGroup(
                name: "Device",
                subcommands: [Scan.self, Push.self, Status.self, Confirm.self, Discard.self, Identify.self]),
            CommandGroup(name: "Simulation", subcommands: [Simulate.self]),
            CommandGroup(name: "This machine", subcommands: [Doctor.self, Gatt.self]),
        ])

    @OptionGroup(title: "Output options") var options: OutputOptions
}

/// The version of this release. A test compares it with the first heading of CHANGELOG.md.
package enum Version {
    package static let number = "0.1.0"
    /// The output of `--version`.
    package static let line = "otaflash \(number)"
}

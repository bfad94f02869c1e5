package import ArgumentParser
import CLinux
import Glibc
import OTASigning

/// A program with commands: parses its arguments, runs the command, and prints the result or the failure.
package struct CommandLineTool: Sendable {
    private let root: any RootGroup.Type

    /// - Parameter root: the root of the command line.
    package init(_ root: any RootGroup.Type) { self.root = root }

    /// Runs the program.
    ///
    /// - Parameter commandLine: the name of the program, and the arguments. Swift reads them from /proc/self/cmdline. If it cannot read
    ///   them, the array is empty.
    /// - Returns: the exit status of the process.
    package func run(_ commandLine: [String]) async -> Int32 {
        StandardStream.secure()
        OpenSSLState.keepAtExit()
        let arguments = Array(commandLine.dropFirst())
        guard !commandLine.isEmpty else {
            // Without this check, otaflash would print the help and exit with 0, and a script would take this for a success of `verify`.
            let failure = Failure(
                "read-failed", .inputOutput, "the arguments cannot be read, because /proc is not mounted",
                hint: "mount it: mount -t proc proc /proc")
            console(for: []).fail(failure, of: "")
            return failure.exit.rawValue
        }
        // The guard process needs no protection from core dumps, because its environment contains no secrets.
        if arguments == [LinkGuardProcess.word] {
            await LinkGuardProcess.run()
            return ExitStatus.done.rawValue
        }
        CrashDumps.forbid()
        return await perform(arguments).rawValue
    }

    private func perform(_ arguments: [String]) async -> ExitStatus {
        do {
            if asksForVersion(arguments) {
                try console(for: arguments).printLines([TerminalLine(Version.line)])
                return .done
            }
            if arguments.isEmpty {
                try console(for: arguments).printLines(HelpPage.short(of: root))
                return .done
            }
            if let failure = root.handOver(arguments) { throw failure }
            // The words of a completion request are incomplete, so the checks do not apply to them.
            if arguments.first != Completions.request {
                if let fault = unusableArgument(in: arguments) ?? fault(in: arguments) { throw fault }
            }
            var command = try root.parseAsRoot(arguments)
            if let command = command as? any Command { return await command.perform(arguments) }
            if let group = command as? any CommandGroupWithHint {
                let help = root.helpMessage(for: type(of: command))
                throw Failure(missingCommand: HelpPage.ordered(help), hint: type(of: group).hint)
            }
            // The built-in commands of argument-parser, such as `help`, throw their output as an error.
            try command.run()
            return .done
        } catch {
            return report(error, of: arguments)
        }
    }

    private func report(_ error: any Error, of arguments: [String]) -> ExitStatus {
        let console = console(for: arguments)
        var failure = error as? Failure
        if failure == nil, root.exitCode(for: error).isSuccess {
            do {
                let message = root.message(for: error)
                let isScript = arguments.contains(Completions.option)
                let page = isScript ? Completions.script(message, for: arguments) : HelpPage.ordered(message)
                try console.printLines(TerminalLine.page(page))
                return .done
            } catch {
                failure = Failure(error, in: Invocation(command: ""))
            }
        }
        let reported = failure ?? self.failure(parsing: error, of: arguments)
        console.fail(reported, of: command(in: arguments))
        return reported.exit
    }

    /// The commands that only contain subcommands.
    private var groups: [any ParsableCommand.Type] {
        root.configuration.subcommands.filter { !$0.configuration.subcommands.isEmpty }
    }

    /// Returns the failure for arguments that argument-parser rejected. The failure contains the usage of the subcommand in the arguments.
    ///
    /// For an invalid value of an output option, argument-parser itself shows the usage of `root`, because `root` declares
    /// the output options, too.
    private func failure(parsing error: any Error, of arguments: [String]) -> Failure {
        let reading = CommandLineReading(of: root, arguments)
        if let failure = reading.absentValue ?? reading.unknownOption { return failure }
        let path = reading.path
        var command: any ParsableCommand.Type = root
        for name in path {
            command = command.configuration.subcommands.first { $0.configuration.commandName == name } ?? command
        }
        return Failure(
            parsing: root.message(for: error), usage: root.usageString(for: command),
            help: (["otaflash"] + path + ["--help"]).joined(separator: " "))
    }

    private func names(_ command: any ParsableCommand.Type) -> [String] {
        command.configuration.subcommands.compactMap { $0.configuration.commandName }
    }

    /// Returns the failure for an unusable argument: a private key, text that is not valid UTF-8, or an empty text; or for too many
    /// arguments. The message does not contain the argument, because a private key must not appear in a message or log. Returns nil if all
    /// arguments are usable.
    private func unusableArgument(in arguments: [String]) -> Failure? {
        if arguments.contains(where: { $0.contains("PRIVATE KEY-----") }) {
            return .usage(
                "an argument contains a private key, and every user of this machine can read the arguments",
                hint: "give the file of the key, or the name of an environment variable: --key env:NAME")
        }
        // The replacement character U+FFFD stands for bytes that are not valid UTF-8. The original bytes are lost, so the argument would
        // name another file.
        if arguments.contains(where: { $0.contains("\u{FFFD}") }) {
            return .usage("an argument is not valid UTF-8", hint: "rename the file, or use another name")
        }
        // argument-parser needs 16 s for 20,000 arguments.
        guard arguments.count <= Self.mostArguments else {
            return .usage(
                "\(arguments.count) arguments are too many: at most \(Self.mostArguments)",
                hint: "write the addresses of devices to a file, one on each line: --device-file FILE")
        }
        return emptyArgument(in: arguments)
    }
    private static let mostArguments = 4096

    /// Returns the failure for an empty argument, because otaflash accepts no empty arguments. Returns nil if no argument is empty.
    private func emptyArgument(in arguments: [String]) -> Failure? {
        let hint = "give a value; a variable in your script may be empty"
        let options = arguments.prefix { $0 != "--" }
        if let option = options.first(where: { $0.hasPrefix("--") && $0.firstIndex(of: "=") == $0.indices.last }) {
            return .usage("the value of \(option.dropLast()) is empty", hint: hint)
        }
        guard let index = arguments.firstIndex(of: "") else { return nil }
        let before = index > 0 ? arguments[index - 1] : ""
        let isValue = index < options.count && before.hasPrefix("-")
        return .usage(isValue ? "the value of \(before) is empty" : "an argument is empty", hint: hint)
    }

    /// Returns the failure for a mistyped command or a repeated option. argument-parser itself reports a mistyped command without a
    /// suggestion, and accepts a repeated option. Returns nil if this function finds neither error.
    private func fault(in arguments: [String]) -> Failure? {
        // The description of a command's options takes some milliseconds. So this function does not need it for a usual command line.
        let options = arguments.prefix { $0 != "--" }.filter { $0.hasPrefix("-") && $0 != "-" }.map {
            $0.prefix { $0 != "=" }
        }
        let first = arguments.first { !$0.hasPrefix("-") } ?? ""
        // The name of a short option is the first letter of its long name. So it can only repeat a long option with this letter.
        let letters = options.filter { !$0.hasPrefix("--") }.compactMap { $0.dropFirst().first }
        let isUsual =
            Set(options).count == options.count && names(root).contains(first)
            && !letters.contains { letter in options.contains { $0.hasPrefix("--\(letter)") } }
        let isGroup = groups.contains { $0.configuration.commandName == first }
        guard !isUsual || isGroup else { return nil }
        let reading = CommandLineReading(of: root, arguments)
        return reading.mistypedCommand(or: root.otherCommands) ?? reading.repeatedOption
    }

    /// Returns the full name of the command in the arguments, for the JSON result. Returns an empty string if the arguments contain no
    /// known command.
    private func command(in arguments: [String]) -> String {
        let commands = names(root) + root.otherCommands
        guard let index = arguments.firstIndex(where: commands.contains) else { return "" }
        let next = arguments[(index + 1)...].first
        // All commands of the other program have two words. If that program is not installed, its second words are not known.
        if let next, root.otherCommands.contains(arguments[index]), !next.hasPrefix("-") {
            return "\(arguments[index]) \(next)"
        }
        guard let next,
            groups.contains(where: { $0.configuration.commandName == arguments[index] && names($0).contains(next) })
        else {
            return arguments[index]
        }
        return "\(arguments[index]) \(next)"
    }

    private func console(for arguments: [String]) -> Console { Console(OutputSettings(scanning: arguments)) }

    /// Returns true if the arguments request the version. The version flag of argument-parser is not used, because `sign` and `simulate
    /// create` have their own option `--version`.
    private func asksForVersion(_ arguments: [String]) -> Bool {
        let words = arguments.prefix { $0 != "--" }
        return words.contains("--version") && !words.contains(Sign.name) && !words.contains(SimulateCreate.word)
    }
}

/// Prevents core dumps and crash reports, which could contain keys and passphrases.
private enum CrashDumps {
    private static let fatal = [SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS]

    /// Prevents core dumps and crash reports of this process. This works for every value of the kernel setting `core_pattern` and of the
    /// inherited limit RLIMIT_CORE.
    ///
    /// Call this function at the start of the process, because the environment may already contain a key or a passphrase.
    static func forbid() {
        // If `core_pattern` names a program, the kernel ignores the limit RLIMIT_CORE. Even then, the kernel writes no dump of a process
        // that is not dumpable (core(5)).
        _ = clinux_set_dumpable(0)
        var limit = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
        // With the environment variable SWIFT_BACKTRACE, the signal handlers of the Swift runtime start a program that writes a crash
        // report. The report contains the memory that registers point to. Therefore this function removes the handlers of the `fatal`
        // signals.
        for number in fatal {
            let before = signal(number, SIG_DFL)
            // An ignored signal stays ignored. For example, a shell ignores SIGQUIT for its background jobs.
            if unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) { signal(number, SIG_IGN) }
        }
    }
}

/// A command that only contains subcommands.
package protocol CommandGroupWithHint: ParsableCommand {
    /// The hint for a command line without a subcommand.
    static var hint: String { get }
}

/// The root of the command line of a program.
package protocol RootGroup: CommandGroupWithHint {
    /// The first commands to type, for the help.
    static var firstRun: String { get }
    /// The commands of the other program that `handOver` runs.
    static var otherCommands: [String] { get }
    /// Runs another program in place of this one, if the arguments are for the other program. This function then does not return.
    ///
    /// - Returns: the failure if the other program cannot be started; nil if the arguments are for this program.
    static func handOver(_ arguments: [String]) -> Failure?
}

import ArgumentParser

/// The command line as a whole.
public struct OTAFlash: ParsableCommand {
    public static let configuration = CommandConfiguration(
        commandName: "otaflash",
        abstract: "Signs firmware, and sends it over Bluetooth LE such that the device survives it.",
        discussion: """
            A first run, without any hardware:
              otaflash keygen release
              otaflash sign app.bin --key release.pem --product acme-thermostat --version 1.1.0
              otaflash push app.bin.otaf --device sim: --trust release.pub.pem

            'otaflash --version' prints the version; \
            'otaflash --generate-completion-script bash' (or zsh, fish) what completes these words in a shell.
            """,
        subcommands: [Simulate.self],
        groupedSubcommands: [
            CommandGroup(name: "Firmware", subcommands: [Keygen.self, Sign.self, Verify.self, Inspect.self]),
            CommandGroup(
                name: "Devices",
                subcommands: [
                    Scan.self, Push.self, Status.self, Confirm.self, Discard.self, Identify.self,
                ]),
        ])

    @OptionGroup(title: "Output options") var options: OutputOptions

    public init() {}

    /// Runs the tool.
    ///
    /// - Parameter arguments: without the program's name.
    /// - Returns: what the process ends with.
    public static func run(_ arguments: [String]) async -> Int32 {
        StandardStream.secure()
        return await perform(arguments).rawValue
    }

    private static func perform(_ arguments: [String]) async -> ExitStatus {
        do {
            if asksForVersion(arguments) {
                try console(for: arguments).say(Version.line)
                return .done
            }
            var command = try parseAsRoot(arguments)
            if let verb = command as? any Verb { return await verb.perform() }
            if command is OTAFlash || command is Simulate {
                throw Failure(missingCommand: helpMessage(for: type(of: command)))
            }
            // argument-parser's own commands, such as help, throw what they have to say.
            try command.run()
            return .done
        } catch {
            return tell(error, of: arguments)
        }
    }

    private static func tell(_ error: any Error, of arguments: [String]) -> ExitStatus {
        let console = console(for: arguments)
        var failure = error as? Failure
        if failure == nil, exitCode(for: error).isSuccess {
            do {
                try console.say(message(for: error))
                return .done
            } catch {
                failure = Failure(error, in: Situation(command: ""))
            }
        }
        let told = failure ?? Failure(parsing: message(for: error), fullMessage(for: error))
        console.fail(told, of: arguments.first { !$0.hasPrefix("-") } ?? "")
        return told.exit
    }

    private static func console(for arguments: [String]) -> Console { Console(OutputOptions(scanning: arguments)) }

    /// argument-parser's own flag would take `--version` away from the commands that have an option of that name.
    private static func asksForVersion(_ arguments: [String]) -> Bool {
        let words = arguments.prefix { $0 != "--" }
        return words.contains("--version") && !words.contains(Sign.name) && !words.contains(SimulateCreate.word)
    }
}

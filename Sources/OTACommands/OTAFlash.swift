import ArgumentParser

/// The tool, whatever starts it.
public enum OTAFlash {
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
            var command = try RootCommand.parseAsRoot(arguments)
            if let verb = command as? any Verb { return await verb.perform() }
            if command is RootCommand || command is Simulate {
                throw Failure(missingCommand: RootCommand.helpMessage(for: type(of: command)))
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
        if failure == nil, RootCommand.exitCode(for: error).isSuccess {
            do {
                try console.say(RootCommand.message(for: error))
                return .done
            } catch {
                failure = Failure(error, in: Situation(command: ""))
            }
        }
        let message = RootCommand.message(for: error)
        let told = failure ?? Failure(parsing: message, fullMessage: RootCommand.fullMessage(for: error))
        console.fail(told, of: arguments.first { !$0.hasPrefix("-") } ?? "")
        return told.exit
    }

    private static func console(for arguments: [String]) -> Console { Console(OutputSettings(scanning: arguments)) }

    /// argument-parser's own flag would take `--version` away from the commands that have an option of that name.
    private static func asksForVersion(_ arguments: [String]) -> Bool {
        let words = arguments.prefix { $0 != "--" }
        return words.contains("--version") && !words.contains(Sign.name) && !words.contains(SimulateCreate.word)
    }
}

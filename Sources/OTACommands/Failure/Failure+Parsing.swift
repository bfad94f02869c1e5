extension Failure {
    /// Creates the failure for arguments that argument-parser rejected.
    ///
    /// - Parameters:
    ///   - message: the reason.
    ///   - fullMessage: the reason, followed by the usage text of the command.
    init(parsing message: String, fullMessage: String) {
        let lines = fullMessage.split(separator: "\n", omittingEmptySubsequences: false)
        // The last match: the message before the usage text may repeat an argument that contains line feeds.
        let usage = lines[(lines.lastIndex { $0.hasPrefix("Usage:") } ?? lines.endIndex)...]
        let help = usage.last.flatMap { $0.split(separator: "'").dropFirst().first } ?? "otaflash --help"
        self = .usage(message.isEmpty ? "invalid arguments" : message, hint: "show the help: \(help)")
        self.usage = usage.prefix { !$0.hasPrefix("  See '") }.map(String.init)
    }

    /// Creates the failure for a command line that ends before the name of a subcommand.
    init(missingCommand help: String) {
        self = .usage("the command is missing", hint: "to start, create a key: otaflash keygen NAME")
        usage = help.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }
}

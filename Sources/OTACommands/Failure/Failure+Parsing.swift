extension Failure {
    /// Arguments that argument-parser did not take.
    ///
    /// - Parameters:
    ///   - message: what is wrong.
    ///   - fullMessage: the same, followed by how the command is used.
    init(parsing message: String, fullMessage: String) {
        let lines = fullMessage.split(separator: "\n", omittingEmptySubsequences: false)
        // The last one: the message before it may repeat an argument that holds line feeds.
        let usage = lines[(lines.lastIndex { $0.hasPrefix("Usage:") } ?? lines.endIndex)...]
        let help = usage.last.flatMap { $0.split(separator: "'").dropFirst().first } ?? "otaflash --help"
        self = .usage(message.isEmpty ? "these arguments are not understood" : message, hint: "all of it: \(help)")
        self.usage = usage.prefix { !$0.hasPrefix("  See '") }.map(String.init)
    }

    /// A word is missing behind what was typed.
    init(missingCommand help: String) {
        self = .usage("a command is missing", hint: "the usual first one: otaflash keygen NAME")
        usage = help.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    }
}

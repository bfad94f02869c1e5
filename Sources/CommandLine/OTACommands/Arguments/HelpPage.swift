import ArgumentParser

/// Formats the help pages for the user.
enum HelpPage {
    /// The help page of `otaflash` without arguments: the purpose of the tool, the first commands to type, and the list of commands.
    static func short(of program: any RootGroup.Type) -> [TerminalLine] {
        let root = program.configuration
        let commands = root.subcommands.map { $0.configuration }.map { ($0.commandName ?? "", $0.abstract) }
        let lines = ["\(Version.line): \(root.abstract)", "", program.firstRun, ""].flatMap {
            $0.split(separator: "\n", omittingEmptySubsequences: false)
        }
        return lines.map { TerminalLine("\($0)") } + ["Commands:"]
            + TextTable.pairs(commands.map { ("  \($0)", $1) })
            + ["", "'otaflash COMMAND --help' describes a command, with examples."]
    }

    /// Sorts the sections of argument-parser's help page by their importance for the user: arguments, options, options for special cases,
    /// output options. argument-parser itself prints titled option groups before the section OPTIONS. The discussions of the options are
    /// omitted: they are in the manual page of the command, which the last line names.
    static func ordered(_ page: String) -> String {
        var preamble: [Substring] = []
        var sections: [[Substring]] = []
        var footer: [Substring] = []
        for line in page.split(separator: "\n", omittingEmptySubsequences: false) {
            if isHeading(line) {
                sections.append([Substring(line.replacing("SUBCOMMANDS:", with: "COMMANDS:"))])
            } else if line.hasPrefix(footerStart) {
                footer = ["", Substring(clearer(footer: line))]
            } else if sections.isEmpty {
                preamble += line.hasPrefix("USAGE: ") ? usage(line) : [line]
                if line.hasPrefix("USAGE: "), let name = manual(usage: line) {
                    footer = ["", "'man \(name)' describes each option in full."]
                }
            } else if !isDiscussion(line) {
                sections[sections.count - 1].append(line)
            }
        }
        let trimmed: [[Substring]] = sections.map { section in
            section[...((section.lastIndex { !$0.isEmpty }) ?? 0)] + []
        }
        let order = trimmed.enumerated().sorted { (rank($0.element[0]), $0.offset) < (rank($1.element[0]), $1.offset) }
        let body = order.map { $0.element.joined(separator: "\n") }.joined(separator: "\n\n")
        return (preamble + [Substring(body)] + footer).joined(separator: "\n")
    }

    /// Returns the lines of a usage. argument-parser lists each optional option if the line is short enough. Here, `[<options>]` after the
    /// name of the command stands for all of them, so that the usages of all commands look the same.
    ///
    /// - Parameter usage: the usage as argument-parser writes it, with its heading.
    static func usage(_ usage: Substring) -> [Substring] {
        let text = String(usage).replacing("<subcommand>", with: "<command>")
        // The name of a value can contain brackets: <[host:]port>.
        let optional = /\[-([^\[\]]|\[[^\]]*\])*\]|\[?<options>\]?/
        guard text.contains(optional) else { return wrapped(text[...]) }
        let words = text.replacing(optional, with: "").split(separator: " ")
        let isArgument = { (word: Substring) in word.hasPrefix("<") || word.hasPrefix("[") || word.hasPrefix("-") }
        let command = words.prefix { !isArgument($0) }
        return wrapped((command + ["[<options>]"] + words.dropFirst(command.count)).joined(separator: " ")[...])
    }

    private static let footerStart = "  See '"

    /// Returns the last line of the help page of a command group. The word "command" replaces argument-parser's word "subcommand", because
    /// the rest of the page uses "command".
    private static func clearer(footer line: Substring) -> String {
        String(line).replacing(footerStart, with: "'").replacing(
            "<subcommand>' for detailed help.", with: "COMMAND' describes a command, with an example.")
    }

    /// Wraps a usage line to 80 columns. argument-parser has already wrapped the other lines of the page.
    private static func wrapped(_ usage: Substring) -> [Substring] {
        var lines: [String] = [""]
        var part = ""
        for word in usage.split(separator: " ") {
            part += part.isEmpty ? String(word) : " \(word)"
            // An option and its value stay on one line, even if no brackets enclose them.
            let isOpen = part.count { $0 == "[" } > part.count { $0 == "]" }
            guard !isOpen, !(part.hasPrefix("--") && !part.contains(" ")) else { continue }
            let last = lines[lines.count - 1]
            if last.isEmpty {
                lines[lines.count - 1] = part
            } else if last.count + 1 + part.count <= 80 {
                lines[lines.count - 1] = "\(last) \(part)"
            } else {
                lines.append("         \(part)")
            }
            part = ""
        }
        if !part.isEmpty { lines[lines.count - 1] += " \(part)" }
        return lines.map { Substring($0) }
    }

    /// Returns the name of the manual page of a command, such as `otaflash-push`; nil for a group of commands.
    private static func manual(usage: Substring) -> String? {
        guard !usage.contains("<subcommand>") else { return nil }
        return usage.split(separator: " ").dropFirst().prefix { $0.first?.isLetter == true }.joined(separator: "-")
    }

    /// Returns whether a line is part of the discussion of an option. argument-parser indents it by 8 columns.
    private static func isDiscussion(_ line: Substring) -> Bool {
        line.hasPrefix("        ") && line.dropFirst(8).first != " "
    }

    /// Returns whether a line is a heading: not indented, without lowercase letters, and with a colon at the end.
    private static func isHeading(_ line: Substring) -> Bool {
        guard line.hasSuffix(":"), let first = line.first, first.isLetter else { return false }
        return !line.contains { $0.isLowercase }
    }

    private static func rank(_ heading: Substring) -> Int {
        switch heading {
        case "ARGUMENTS:": 0
        case _ where heading.hasSuffix("COMMANDS:"): 1
        case "OPTIONS:": 2
        case "OUTPUT OPTIONS:": 4
        default: 3
        }
    }
}

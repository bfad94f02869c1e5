import ArgumentParser
import FoundationEssentials

/// A parsed command line. argument-parser does not detect some errors in a command line, and reports other errors without their cause. This
/// type detects these errors.
struct CommandLineReading {
    /// An option of a command, decoded from the JSON that argument-parser creates for `--experimental-dump-help`.
    struct Argument: Decodable {
        struct Name: Decodable {
            let kind, name: String

            /// The option as typed on the command line, for example `--device`.
            var word: String { kind == "long" ? "--\(name)" : "-\(name)" }
        }

        let kind: String
        let names: [Name]?
        let isRepeating: Bool
        /// `unconditional` if the option takes the next word as its value, also a word that begins with `-`.
        let parsingStrategy: String

        var words: [String] { (names ?? []).map(\.word) }
        var takesValue: Bool { kind == "option" }
    }

    private let root: any ParsableCommand.Type
    /// The innermost command, for example `create` in `otaflash simulate create`.
    private var command: any ParsableCommand.Type
    /// The options of `command`, nil until the command line contains an option of this command. The description of all commands would
    /// cost 20 ms, which is more than the signature of an image.
    private var arguments: [Argument]?
    /// The names of the command and its parent, such as `["simulate", "create"]`; empty for the root command.
    private(set) var path: [String] = []
    /// The options in the order of the command line; `argument` is nil for an unknown option.
    private var options: [(word: String, argument: Argument?)] = []
    /// A word at the place of a command name that is not the name of a command; nil if there is no such word.
    private(set) var unknownCommand: String?
    /// The first option whose value is missing because the next word looks like an option, and this word; nil if there is no such option.
    private var missingValue: (option: String, word: String)?

    /// Parses a command line up to the word `--`. The word `help` before the name of a command, as in `otaflash help push`, is ignored.
    init(of root: any ParsableCommand.Type, _ words: [String]) {
        self.root = root
        command = root
        var rest = words.prefix { $0 != "--" }[...]
        while let word = rest.popFirst() {
            if word.hasPrefix("-"), word.utf8.count > 1 {
                let argument = argument(word)
                options.append((word, argument))
                guard argument?.takesValue == true, !word.contains("=") else { continue }
                if let next = rest.first, next.hasPrefix("-"), next != "-", argument?.parsingStrategy != "unconditional"
                {
                    missingValue = missingValue ?? (word, next)
                } else {
                    rest = rest.dropFirst()
                }
            } else if word == "help", !names.isEmpty {
                continue
            } else if let next = subcommand(word) {
                command = next
                arguments = nil
                path.append(word)
            } else if !names.isEmpty {
                // After an unknown option such as --generate-completion-script, the word can be the value of this option. So after an
                // unknown option, no word is reported as an unknown command.
                if options.allSatisfy({ $0.argument != nil }) { unknownCommand = word }
                return
            }
        }
    }

    /// The names of the subcommands of `command`, in the order of the help.
    private var names: [String] { command.configuration.subcommands.map { $0._commandName } }

    private func subcommand(_ name: String) -> (any ParsableCommand.Type)? {
        command.configuration.subcommands.first { $0._commandName == name }
    }

    /// Returns the option that a word names; nil if it is unknown. An option that the subcommand does not have can be an option of the root
    /// command.
    private mutating func argument(_ word: String) -> Argument? {
        let name = String(word.prefix { $0 != "=" })
        let own = arguments ?? Self.arguments(of: command)
        arguments = own
        return own.first { $0.words.contains(name) }
            ?? (path.isEmpty ? nil : Self.arguments(of: root).first { $0.words.contains(name) })
    }

    private static func arguments(of command: any ParsableCommand.Type) -> [Argument] {
        struct Dump: Decodable {
            struct Command: Decodable { let arguments: [Argument]? }
            let command: Command
        }
        let dump = try? JSONDecoder().decode(Dump.self, from: Data(command._dumpHelp().utf8))
        return dump?.command.arguments ?? []
    }
}

extension CommandLineReading {
    /// The failure for an unknown command; nil if all commands are known. Without this check, argument-parser would report only an
    /// unexpected argument, and would suggest no similar command.
    ///
    /// - Parameter others: the commands of another program that can also be at the place of the first command.
    func mistypedCommand(or others: [String]) -> Failure? {
        guard let unknownCommand else { return nil }
        let known = names + (path.isEmpty ? others : [])
        let line = (["otaflash"] + path).joined(separator: " ")
        let list = "the commands are: \(known.joined(separator: ", "))"
        let hints =
            Suggestion.nearest(to: unknownCommand, in: known).map { ["did you mean: \(line) \($0)", list] } ?? [list]
        return Failure("usage", .usage, "there is no command '\(unknownCommand)'", hints: hints)
    }

    /// The failure for an option that the command does not have; nil if all options are known. argument-parser itself does not report the
    /// unknown option if a required argument is missing.
    var unknownOption: Failure? {
        guard let word = options.first(where: { $0.argument == nil })?.word else { return nil }
        let name = String(word.prefix { $0 != "=" })
        let help = "show the options: \((["otaflash"] + path).joined(separator: " ")) --help"
        // --version is not in the table (`OTAFlash.asksForVersion`).
        let known = (arguments ?? []).flatMap(\.words) + ["--version"]
        let nearest = Suggestion.nearest(to: name, in: known)
        return Failure(
            "usage", .usage, "there is no option '\(name)'",
            hints: nearest.map { ["did you mean \($0)?", help] } ?? [help])
    }

    /// The failure for the first option without a value. argument-parser reads a word that begins with `-` as an option, even if the word
    /// is meant as a value, such as `-1` in `--counter -1`, unless the strategy of the option is `unconditional`. The failure is nil if
    /// there is no such option, or if the next word begins with `--`.
    var absentValue: Failure? {
        guard let missingValue, !missingValue.word.hasPrefix("--") else { return nil }
        let (option, word) = missingValue
        return .usage(
            "\(option) has no value, because '\(word)' is read as an option",
            hint: "if \(word) is the value, write \(option)=\(word)")
    }

    /// The failure for a repeated option that takes one value; nil if no such option is repeated. Without this check, argument-parser would
    /// use only the last value.
    var repeatedOption: Failure? {
        for (index, option) in options.enumerated() {
            guard let argument = option.argument, argument.takesValue, !argument.isRepeating else { continue }
            let earlier = options[..<index].contains { earlier in
                earlier.argument.map { $0.words == argument.words } ?? false
            }
            guard earlier else { continue }
            let name = argument.words.last ?? option.word
            let hint =
                name == "--device"
                ? "run the command once for each device" : "give \(name) once"
            return .usage("\(name) was given more than once, but it has one value", hint: hint)
        }
        return nil
    }
}

/// Finds the known word that is most similar to a mistyped word.
package enum Suggestion {
    /// Returns the word with the fewest changes from `text`; nil if no word is similar.
    ///
    /// A word of n letters is similar if it differs from `text` in at most n / 3 changes. For a word of 2 to 5 letters, the limit is one
    /// change. A change is a wrong, missing or added letter, or two letters in the wrong order. A word of one letter is never similar.
    package static func nearest(to text: String, in words: [String]) -> String? {
        let distances = words.map { (word: $0, distance: distance(text, $0)) }
        guard let best = distances.min(by: { $0.distance < $1.distance }) else { return nil }
        let letters = best.word.filter(\.isLetter).count
        return letters > 1 && best.distance <= max(1, letters / 3) ? best.word : nil
    }

    /// Returns the number of changes between two words (optimal string alignment distance).
    private static func distance(_ left: String, _ right: String) -> Int {
        // Only 64 bytes are compared, because the cost grows with the product of both lengths. No command or option is longer than 64
        // bytes.
        let (left, right) = (Array(left.utf8.prefix(64)), Array(right.utf8.prefix(64)))
        var rows = [Array(0...right.count)]
        for (row, letter) in left.enumerated() {
            var next = [row + 1]
            for (column, other) in right.enumerated() {
                var least = min(
                    rows[row][column + 1] + 1, next[column] + 1, rows[row][column] + (letter == other ? 0 : 1))
                if row > 0, column > 0, letter == right[column - 1], left[row - 1] == other {
                    least = min(least, rows[row - 1][column - 1] + 1)
                }
                next.append(least)
            }
            rows.append(next)
        }
        return rows[left.count][right.count]
    }
}

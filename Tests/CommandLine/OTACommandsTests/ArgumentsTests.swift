import Testing

@Suite("Arguments: mistyped and repeated words, help pages, ranges") struct ArgumentsTests {
    @Test(
        "a mistyped command or option gets the intended one as a hint",
        arguments: [
            (["psuh"], "otaflash push"), (["help", "psuh"], "otaflash push"), (["pus", "--help"], "otaflash push"),
            (["simulate", "creat", "x"], "otaflash simulate create"), (["help", "gatt", "raed"], "otaflash gatt read"),
            (["push", "fw.otaf", "--devcie", "sim:"], "--device?"), (["sign", "--vresion=1.0.0"], "--version?"),
            (["push", "fw.otaf", "--device", "sim:", "--resum"], "--resume?"),
            (["--formt", "json", "list"], "--format?"), (["scan", "--rssi", "-60", "--nmae", "x"], "--name?"),
        ])
    func suggestions(words: [String], suggestion: String) async throws {
        let run = try await Sandbox().run(words)
        #expect(run.exit == 64 && run.out.isEmpty)
        #expect(
            run.err.contains("hint: did you mean\(suggestion.hasPrefix("-") ? "" : ":") \(suggestion)\n"), "\(run.err)")
    }

    @Test(
        "a word that is not similar to a command or an option gets no suggestion",
        arguments: [["frobnicate"], ["push", "--zzz"]])
    func noSuggestion(words: [String]) async throws {
        let run = try await Sandbox().run(words)
        #expect(run.exit == 64 && !run.err.contains("did you mean"), "\(run.err)")
    }

    @Test(
        "an option with one value is refused when it is repeated",
        arguments: [
            ["discard", "--device", "sim:", "--device", "sim:b"],
            ["confirm", "--device=sim:", "--device=sim:b"],
            ["status", "--device", "sim:", "--format", "json", "--format", "text"],
            ["scan", "--rssi", "-60", "--rssi", "-70"],
            ["sign", "fw.bin", "--key", "k.pem", "-o", "a", "--output", "b"],
            ["--format", "json", "simulate", "list", "--format=text"],
        ])
    func repeatedOptions(words: [String]) async throws {
        let run = try await Sandbox().run(words)
        #expect(run.exit == 64 && run.err.contains("was given more than once, but it has one value"), "\(run.err)")
    }

    @Test("repeated values of --trust and --key, and option names after -- or as values, are accepted")
    func repeatedValuesThatAreAccepted() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let verified = try await sandbox.run(
            "verify", "fw.otaf", "--trust", "release.pub.pem", "--trust", "release.pub.pem")
        #expect(verified.exit == 0, "\(verified.err)")
        try sandbox.write("--format", try sandbox.read("fw.otaf"))
        #expect(try await sandbox.run("inspect", "--format", "json", "--", "--format").exit == 0)
    }

    @Test("without arguments, a short help with the commands is printed to stdout with exit 0")
    func shortHelp() async throws {
        let run = try await Sandbox().run()
        #expect(run.exit == 0 && run.err.isEmpty && run.out.split(separator: "\n").count < 30)
        #expect(run.out.contains("\n  push ") && run.out.contains("otaflash keygen release"))
    }

    @Test(
        "a group without its command gets a hint for that group",
        arguments: [("gatt", "otaflash gatt services"), ("simulate", "otaflash simulate create")])
    func groupHints(group: String, hint: String) async throws {
        let run = try await Sandbox().run(group)
        #expect(run.exit == 64 && run.err.contains("\(hint) "), "\(run.err)")
    }

    static let commands = [
        ["keygen"], ["sign"], ["verify"], ["inspect"], ["attest"], ["scan"], ["push"], ["status"], ["confirm"],
        ["discard"], ["restart"],
        ["identify"], ["doctor"],
        ["simulate", "create"], ["simulate", "list"], ["simulate", "remove"], ["simulate", "serve"],
        ["gatt", "services"], ["gatt", "read"],
        ["gatt", "write"], ["gatt", "notify"], ["device-check"],
    ]

    @Test(
        "a help page has examples first, then the arguments and options, and last the output options",
        arguments: commands)
    func helpPages(words: [String]) async throws {
        let page = try await Sandbox().run(words + ["--help"]).out
        #expect(page.split(separator: "\n")[1].hasPrefix("Example: otaflash \(words.joined(separator: " "))"))
        let headings = page.split(separator: "\n").filter {
            $0.hasSuffix(":") && $0.first?.isUppercase == true && $0 == $0.uppercased()
        }
        #expect(headings.last == "OUTPUT OPTIONS:" && headings.dropLast().contains("OPTIONS:"))
        #expect(headings.contains("ARGUMENTS:") == false || headings.first == "ARGUMENTS:")
        #expect(page.split(separator: "\n").allSatisfy { $0.count <= 80 })
        // The usage has the arguments and the required options. The required options come before the optional ones.
        let lines = page.split(separator: "\n")
        let usage = lines.drop { !$0.hasPrefix("USAGE:") }.prefix {
            $0.hasPrefix("USAGE:") || $0.hasPrefix("         --")
        }
        .joined(separator: " ").split(separator: " ").joined(separator: " ")
        #expect(
            usage.wholeMatch(of: /USAGE: otaflash [a-z -]+ \[<options>\]( <[a-z]+>)*( --[a-z-]+ <[a-z]+>( \.\.\.)?)*/)
                != nil,
            "\(usage)")
        let required = usage.split(separator: " ").filter { $0.hasPrefix("--") }.count
        let options =
            page.split(separator: "\nOPTIONS:\n").last?.split(separator: "\n").filter { $0.hasPrefix("  -") } ?? []
        let first = options.prefix(required).compactMap { $0.split(separator: " ").first }
        #expect(first.allSatisfy { usage.contains($0) }, "\(first)")
    }

    @Test(
        "the pages of otaflash and of its command groups fit in 80 columns, and call each command a command",
        arguments: [[], ["help"], ["simulate", "--help"], ["gatt", "--help"]])
    func groupPages(words: [String]) async throws {
        let page = try await Sandbox().run(words).out
        let long = page.split(separator: "\n").filter { $0.count > 80 }
        #expect(long.isEmpty && !page.isEmpty, "\(long)")
        #expect(!page.lowercased().contains("subcommand") && page.contains("describes a command, with"))
    }

    @Test(
        "each option has at most two lines in the help of every command, and the help of push has less than 110 lines")
    func shortPages() async throws {
        let sandbox = try Sandbox()
        var count = 0
        for program in [#""$0""#, #""$0-fleet""#] {
            let dump = try await sandbox.shell("\(program) --experimental-dump-help")
            for words in Self.verbs(try #require(JSONValue(parsing: dump.out).command)) {
                let page = try await sandbox.run(words + ["--help"]).out
                let lines = page.split(separator: "\n", omittingEmptySubsequences: false).drop { $0 != "OPTIONS:" }
                let longer = lines.indices.dropLast(2).filter { index in
                    lines[index].hasPrefix("  -")
                        && lines[index...].dropFirst().prefix(2).allSatisfy { $0.hasPrefix("   ") }
                }
                #expect(longer.isEmpty, "\(words): \(longer.map { lines[$0] })")
                #expect(
                    page.contains("'man otaflash-\(words.joined(separator: "-"))' describes each option in full.\n"))
                if words == ["push"] {
                    #expect(page.split(separator: "\n", omittingEmptySubsequences: false).count < 110)
                }
                count += 1
            }
        }
        #expect(count > 40)
    }

    /// The words of each command below a command in the output of `--experimental-dump-help`.
    private static func verbs(_ command: JSONValue, _ path: [String] = []) -> [[String]] {
        let verbs = (command.subcommands?.array ?? []).filter { $0.commandName?.string != "help" }
        return verbs.isEmpty ? [path] : verbs.flatMap { Self.verbs($0, path + [$0.commandName?.string ?? ""]) }
    }

    /// The order lets each example find the files and devices of the examples before it. `scan`, `doctor` and `gatt` need an adapter, and
    /// `simulate serve` does not end by itself.
    @Test("the examples of the help pages work with files and virtual devices")
    func examples() async throws {
        let sandbox = try Sandbox()
        try await sandbox.makeToken()
        var script = """
            set -eu
            PATH=$(dirname "$0"):$PATH
            { printf "\\200"; head -c 20000 /dev/urandom; } >app.bin
            { head -c 512 /dev/zero; head -c 20000 /dev/urandom; } >zephyr.bin

            """
        let order = [
            ["keygen"], ["sign"], ["verify"], ["inspect"], ["attest"], ["push"], ["status"], ["identify"], ["confirm"],
            ["discard"], ["simulate"], ["simulate", "remove"], ["simulate", "create"], ["simulate", "list"],
        ]
        for words in order {
            let example = Self.example(on: try await sandbox.run(words + ["--help"]).out)
            #expect(!example.isEmpty, "\(words)")
            let commands = example.filter { !$0.contains("ble:") }.joined(separator: "\n")
                .replacing("object=fw'", with: "object=fw' --pin-env PIN")
                .replacing("sim:kitchen?", with: "sim:kitchen?pace=virtual&")
                .replacing(/--device sim:(?=\s|$)/, with: "--device 'sim:?pace=virtual'")
            if words == ["attest"] { script += "echo '{}' >app.spdx.json\n" }
            if words == ["verify"] {
                script += "\"$0\" sign app.bin --key release.pem --product demo --version 1.0.0 -o last.otaf\n"
            }
            // After the push, no image is on trial.
            script += words == ["confirm"] ? "\(commands) || test $? = 77\n" : "\(commands)\n"
        }
        let run = try await sandbox.shell(script, env: sandbox.tokens())
        #expect(run.exit == 0, "\(script)\n\(run.out)\n\(run.err)")
    }

    /// The lines of the example on a help page. Each example begins after the word `Example:`, or below it.
    private static func example(on page: String) -> [String] {
        let label = "Example: "
        let lines = page.split(separator: "\n", omittingEmptySubsequences: false)
        guard let start = lines.firstIndex(where: { $0.hasPrefix(label) }) else { return [] }
        let indent = String(repeating: " ", count: label.count)
        return lines[start...].prefix { $0.hasPrefix(label) || $0.hasPrefix(indent) }.map {
            String($0.dropFirst(label.count))
        }
    }

    @Test(
        "a number out of range is refused with the range",
        arguments: [
            (["verify", "f", "--hardware", "65536"], "from 0 to 65535"),
            (["identify", "--device", "sim:", "--seconds", "256"], "from 0 to 255"),
            (["sign", "f", "--key", "k", "--counter", "4294967296"], "from 0 to 4294967295"),
            (["sign", "f", "--key", "k", "--minimum-battery", "101"], "from 0 to 100"),
            (["scan", "--rssi", "21"], "from -127 to 20"),
            (["gatt", "notify", "ble:AA:BB:CC:DD:EE:FF", "2a19", "--count", "0"], "from 1 to"),
            (
                ["simulate", "create", "d", "--product", "d", "--version", "1.0.0", "--trial", "3601"],
                "from 0 to 3600"
            ),
            (
                [
                    "simulate", "create", "d", "--protocol", "smp", "--product", "d", "--version", "1.0.0", "--buffers",
                    "65",
                ], "from 1 to 64"
            ),
        ])
    func ranges(words: [String], range: String) async throws {
        let run = try await Sandbox().run(words)
        #expect(run.exit == 64 && run.err.contains("expected a whole number \(range)"), "\(run.err)")
    }

    @Test(
        "--log and --report with the path of a file that the command writes are refused, and the file is not created",
        arguments: [
            (["sign", "f", "--key", "k", "-o", "./q", "--log", "q"], "-o and --log name the same file 'q'."),
            (["sign", "f", "--to-sign", "q", "--log", "./q"], "--to-sign and --log name the same file './q'."),
            (["sign", "f", "--key", "k", "-o", "q.json", "--report", "q.json"], "-o and --report name the same file"),
            (
                ["attest", "f", "--key", "k", "-o", "./q.json", "--report", "q.json"],
                "-o and --report name the same file"
            ),
            (["verify", "f", "--log", "q.json", "--report", "./q.json"], "--log and --report name the same file"),
            (["attest", "q", "--key", "k", "--log", "q.intoto.jsonl"], "-o and --log name the same file"),
            (["keygen", "q", "--log", "q.pem"], "the private key and --log name the same file 'q.pem'."),
            (
                ["keygen", "q.pem", "--log", "./q.pub.pem"],
                "the public key and --log name the same file './q.pub.pem'."
            ),
        ])
    func sameFile(words: [String], message: String) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run(words)
        #expect(run.exit == 64 && run.err.contains("otaflash: error [usage]: \(message)"), "\(run.err)")
        for name in ["q", "q.json", "q.pem", "q.pub.pem", "q.intoto.jsonl"] { #expect(!sandbox.exists(name)) }
    }

    @Test(
        "the hint for invalid arguments names the command that was given, and a command or option that exists",
        arguments: [
            (["push", "--format", "xml", "f", "--device", "sim:"], "show the help: otaflash push --help"),
            (["simulate", "create", "--progress", "x"], "show the help: otaflash simulate create --help"),
            (["push", "-q"], "show the options: otaflash push --help"),
            (["--verison"], "did you mean --version?"),
            (["keygen", "key", "--log", "none/x"], "create the folder: mkdir -p none"),
            (["verify", ""], "give a value; a variable in your script may be empty"),
            (["inspect", ""], "give a value; a variable in your script may be empty"),
            (["sign", "", "--key", "k"], "give a value; a variable in your script may be empty"),
            (["push", "", "--device", "sim:"], "give a value; a variable in your script may be empty"),
            (["sign", "f", "--key", ""], "give a value; a variable in your script may be empty"),
            (["verify", "f", "--previous="], "give a value; a variable in your script may be empty"),
            (["sign", "f", "--key", "k", "--counter", "-1"], "if -1 is the value, write --counter=-1"),
            (["simulate", "serve", "d", "--udp", "99999"], "use --udp 1337, for example, or --udp 192.168.1.5:1337"),
            (["simulate", "serve", "d", "--udp", "abc"], "use --udp 1337, for example, or --udp 192.168.1.5:1337"),
            (["verify", "f", "--report", "q.xml"], "use the suffix .json: --report report.json"),
            (["push", "f", "--device", "sim:", "--report", "json"], "use the suffix .json, or .xml for JUnit XML"),
        ])
    func hintsForInvalidArguments(words: [String], hint: String) async throws {
        let run = try await Sandbox().run(words)
        #expect(run.exit == (words[0] == "keygen" ? 73 : 64))
        let lines = run.err.split(separator: "\n")
        #expect(lines.contains { $0 == "otaflash: hint: \(hint)" }, "\(run.err)")
        #expect(!run.err.contains("did you mean -h"), "\(run.err)")
        // On a terminal, the usage of the command is between the error and the hint.
        let usage = lines.first { $0.hasPrefix("Usage: ") }
        #expect(
            usage?.hasPrefix("Usage: \(hint.dropFirst("show the help: ".count).prefix { $0 != "-" })") ?? true,
            "\(run.err)")
    }

    @Test("lines of progress begin with the address without the parameters of a virtual device")
    func progressLinesNameTheDeviceBriefly() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        for (address, prefix) in [("sim:?pace=virtual", "sim: "), ("sim:kitchen?pace=virtual", "sim:kitchen: ")] {
            if prefix == "sim:kitchen: " { try await sandbox.create() }
            let run = try await sandbox.run(
                "push", "fw.otaf", "--device", address, "--trust", "release.pub.pem", "--progress", "lines")
            #expect(run.exit == 0)
            #expect(run.err.contains("\(prefix)100 %, "), "\(run.err)")
            #expect(!run.err.contains("pace") && !run.err.contains("::"), "\(run.err)")
        }
    }
}

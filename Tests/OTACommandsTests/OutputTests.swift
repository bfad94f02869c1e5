import FoundationEssentials
import OTACommands
import Subprocess
import Testing

@Suite struct OutputTests {
    private func released() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.release()
        return sandbox
    }

    private let push = ["push", "fw.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem"]

    @Test func progressInJSONIsNothingElse() async throws {
        let sandbox = try await released()
        let words = ["push", "fw.otaf", "--device", "sim:?pace=virtual&drop-at=0.5", "--trust", "release.pub.pem"]
        let run = try await sandbox.run(words + ["--progress", "json", "--verbose"])
        #expect(run.exit == 0)
        let events = try run.events()
        let kinds = Set(events.compactMap { $0.event?.string })
        #expect(
            kinds.isSuperset(of: [
                "phase", "progress", "link-lost", "reconnected", "resumed", "confirmed", "note", "log",
            ]))
        #expect(events.allSatisfy { !$0.holdsNull })
        let phases = events.filter { $0.event?.string == "phase" }.compactMap { $0.phase?.string }
        #expect(phases.first == "connect" && phases.contains("transfer") && phases.last == "confirm")
        let last = try #require(events.last { $0.event?.string == "progress" })
        #expect(last.phase?.string == "transfer" && last.offset?.number == 20_000 && last.total?.number == 20_000)
        #expect(last.bytes_per_second?.number ?? 0 > 0 && last.eta_seconds?.number == 0)

        let failed = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:nobody?pace=virtual", "--trust", "release.pub.pem", "--progress", "json"
        )
        #expect(failed.exit == 69 && failed.out.isEmpty)
        let error = try #require(try failed.events().last)
        #expect(error.event?.string == "error" && error.code?.string == "no-such-device" && error.exit?.number == 69)
        let usage = try await sandbox.run("push", "--progress", "json")
        #expect(try usage.events().map { $0.event?.string } == ["error"])
    }

    @Test func progressInLines() async throws {
        let run = try await released().run(push)
        #expect(run.exit == 0)
        for line in ["Connecting\n", "Sending the image\n", "50 %, ", "100 %, 20000 of 20000 bytes, ", "confirmed\n"] {
            #expect(run.err.contains(line), "\(line)")
        }
        #expect(!run.err.contains("\u{1B}"))
    }

    /// What is over at once is no news in a log; who asks for it is told.
    @Test func onlyAPushTellsALogHowFarItIs() async throws {
        let sandbox = try await released()
        try await sandbox.create()
        for verb in ["status", "identify", "discard"] {
            let words = [verb, "--device", "sim:kitchen?pace=virtual"]
            let run = try await sandbox.run(words)
            #expect(run.exit == 0 && run.err.isEmpty, "\(run.err)")
            let lines = try await sandbox.run(words + ["--progress", "lines"])
            #expect(lines.err.contains("Connecting\n"))
            let events = try await sandbox.run(words + ["--progress", "json"]).events()
            #expect(events.first?.phase?.string == "connect")
        }
        let (_, screen) = try await sandbox.onTerminal("status", "--device", "sim:kitchen?pace=virtual")
        #expect(screen.contains("Connecting"))
    }

    /// A file's name neither speaks to the terminal nor adds a line of its own.
    @Test(arguments: ["x\u{1B}[31mred", "x\notaflash: error: y", "x\u{202E}y", "x\u{9B}y", "it's\r\n"])
    func whatAFileIsCalledIsWrittenOut(name: String) async throws {
        let sandbox = try await released()
        let missing = try await sandbox.run("verify", name)
        try sandbox.write(name, sandbox.read("fw.otaf"))
        let runs = [
            missing, try await sandbox.run("verify", name, "--trust", "release.pub.pem"),
            try await sandbox.run("inspect", name, "--trust", "release.pub.pem"),
            try await sandbox.run("verify", "fw.otaf", "--trust", name), try await sandbox.run(name),
            try await sandbox.run("status", "--device", name), try await sandbox.run(push + [name]),
            try await sandbox.run("sign", "fw.otaf", "--key", name, "--verbose"),
        ]
        for run in runs {
            let text = run.out + run.err
            #expect(!text.contains(name) && text.contains("\\"), "\(text)")
            let isSafe = text.unicodeScalars.allSatisfy {
                $0 == "\n" || ![.control, .format].contains($0.properties.generalCategory)
            }
            #expect(isSafe, "\(text)")
            #expect(!text.split(separator: "\n").contains("otaflash: error: y"))
        }
        // What is to be typed can be typed, in a shell that knows $'…'.
        let hint = try #require(missing.err.split(separator: "hint: check the path: ").last)
        let shown = try await sandbox.shell("exec /bin/bash -c \"$1\"", String(hint))
        #expect(shown.exit == 0, "\(hint)\(shown.err)")
    }

    @Test func canBeSilent() async throws {
        let sandbox = try await released()
        let quiet = try await sandbox.run(push + ["--quiet"])
        #expect(quiet.exit == 0 && quiet.err.isEmpty && !quiet.out.isEmpty)
        let failed = try await sandbox.run("status", "--device", "sim:nobody", "--quiet")
        #expect(failed.exit == 69 && failed.err.contains("otaflash: error: "))
        let none = try await sandbox.run(push + ["--progress", "none"])
        #expect(none.exit == 0 && none.err.isEmpty)
    }

    /// On a terminal: drawn over and over, in no line wider than it.
    @Test(arguments: [UInt16(100), 60, 30])
    func aBarFitsItsTerminal(columns: UInt16) async throws {
        let sandbox = try await released()
        let (status, screen) = try await sandbox.onTerminal(
            "push", "fw.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", columns: columns)
        #expect(status == .exited(0))
        #expect(screen.contains("\r\u{1B}[K") && screen.contains("━") && screen.contains("100 %"))
        let bars = bars(on: screen)
        #expect(!bars.isEmpty && bars.allSatisfy { $0.count < columns }, "\(bars)")
        #expect(screen.contains("now runs 1.1.0"))
    }

    /// From the next time on that it is drawn. The push would take a minute, so that a slow machine is in time for it, too: Ctrl-C ends it.
    @Test func aBarFitsATerminalThatIsResized() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 400_000)
        let drawn = Array(repeating: (prompt: "━", answer: ""), count: 5)
        let (status, screen) = try await sandbox.onTerminal(
            "push", "fw.otaf", "--device", "sim:?interval=200ms", "--trust", "release.pub.pem", columns: 100,
            resizing: (prompt: "━", columns: 40), typing: drawn + [(prompt: "━", answer: "\u{3}")])
        #expect(status == .exited(130))
        let parts = screen.split(separator: "<resized>").map { bars(on: String($0)) }
        try #require(parts.count == 2)
        #expect(parts[0].contains { $0.count > 60 }, "\(parts[0])")
        // One may have been on its way, and behind the last the terminal shows ^C.
        let later = parts[1].filter { $0.contains("━") }.dropFirst(2).dropLast()
        #expect(later.count > 1 && later.allSatisfy { $0.count < 40 }, "\(parts[1])")
    }

    /// The lines that were drawn one over the other, without their colours.
    private func bars(on screen: String) -> [Substring] {
        screen.replacing(/\u{1B}\[[0-9;]*m/, with: "").split(separator: "\r\u{1B}[K")
            .compactMap { $0.split(whereSeparator: \.isNewline).first }
            .filter { $0.contains("━") || $0.contains("…") }
    }

    @Test(arguments: [["NO_COLOR": "1"], ["TERM": "dumb"]])
    func coloursAreLeftOut(environment: [String: String]) async throws {
        let sandbox = try await released()
        let (_, screen) = try await sandbox.onTerminal(
            "push", "fw.otaf", "--device", "sim:nobody", "--trust", "release.pub.pem", env: environment)
        #expect(screen.contains("otaflash: error: ") && screen.firstMatch(of: /\u{1B}\[[0-9;]*m/) == nil)
        let (_, coloured) = try await sandbox.onTerminal(
            "push", "fw.otaf", "--device", "sim:nobody", "--trust", "release.pub.pem")
        #expect(coloured.firstMatch(of: /\u{1B}\[[0-9;]*m/) != nil)
    }

    @Test func theLogIsOnStderr() async throws {
        let run = try await released().run(push + ["--verbose", "--format", "json"])
        #expect(run.exit == 0 && run.err.contains("otaflash: debug: "))
        _ = try run.json()
    }

    // MARK: A stdout that takes nothing

    @Test(arguments: [">&-", ">/dev/full"])
    func anAnswerThatCannotBeWritten(redirection: String) async throws {
        let sandbox = try await released()
        for format in ["text", "json"] {
            let run = try await sandbox.shell(
                "exec \"$0\" \"$@\" \(redirection)", "verify", "fw.otaf", "--trust", "release.pub.pem", "--format",
                format)
            #expect(run.exit == 74, "\(run.status)")
            #expect(run.err.contains("standard output"))
        }
        #expect(try await sandbox.shell("exec \"$0\" \"$@\" \(redirection)", "--version").exit == 74)
        #expect(try await sandbox.shell("exec \"$0\" \"$@\" \(redirection)", "--help").exit == 74)
    }

    @Test func aReaderThatWentAway() async throws {
        let run = try await released().shell(
            "{ sleep 0.2; \"$0\" \"$@\"; echo $? >status; } | true; cat status", "verify", "fw.otaf", "--trust",
            "release.pub.pem")
        #expect(run.out == "74\n")
    }

    /// What is opened first must not take the place of a stream that is closed.
    @Test func noFileBecomesAStream() async throws {
        let sandbox = try await released()
        let run = try await sandbox.shell(
            "exec \"$0\" \"$@\" <&- >&- 2>&-", "sign", "fw.bin", "--key", "release.pem", "--product", "demo",
            "--version", "1.1.0",
            "-o", "again.otaf", env: ["SOURCE_DATE_EPOCH": "1767225600"])
        #expect(run.exit == 74)
        #expect(try sandbox.read("again.otaf") == sandbox.read("fw.otaf"))
    }

    // MARK: Usage

    @Test(arguments: [
        [], ["simulate"], ["frobnicate"], ["push"], ["push", "--frobnicate"], ["--format", "xml", "scan"],
        ["push", "fw.otaf", "--device"], ["verify", "a", "b"],
    ])
    func usage(words: [String]) async throws {
        let sandbox = try Sandbox()
        let text = try await sandbox.run(words)
        #expect(text.exit == 64 && text.out.isEmpty)
        #expect(text.err.hasPrefix("otaflash: error: ") && text.err.contains("\notaflash: hint: "))
        let json = try await sandbox.run(words + ["--format", "json"]).json()
        #expect(json.ok?.bool == false && json.exit?.number == 64 && json.error?.code?.string == "usage")
    }

    @Test(arguments: [["puhs"], ["simulate", "puhs", "demo"], ["gatt", "puhs"], ["puhs", "--help"]])
    func aCommandThatIsNone(words: [String]) async throws {
        let run = try await Sandbox().run(words)
        #expect(
            run.exit == 64 && run.err.contains("there is no command 'puhs'") && run.err.contains("hint: use one of"))
    }

    @Test(
        arguments: zip(
            [["--format", "json", "push"], ["simulate", "create", "--format=json"], ["--format", "json"]],
            ["push", "simulate create", ""]))
    func usageNamesTheCommand(words: [String], command: String) async throws {
        #expect(try await Sandbox().run(words).json().command?.string == command)
    }

    @Test(arguments: [
        ["--help"], ["-h"], ["help"], ["push", "--help"], ["help", "sign"], ["simulate", "create", "-h"],
    ])
    func help(words: [String]) async throws {
        let run = try await Sandbox().run(words)
        #expect(run.exit == 0 && run.err.isEmpty && run.out.contains("USAGE: otaflash"))
    }

    @Test(arguments: ["bash", "zsh", "fish"])
    func completions(shell: String) async throws {
        let run = try await Sandbox().run("--generate-completion-script", shell)
        #expect(run.exit == 0 && run.out.contains("no-downgrade"))
    }

    /// An option that every command has may stand before the command, too.
    @Test func theFormatMayComeFirst() async throws {
        let run = try await Sandbox().run("--format", "json", "simulate", "list")
        #expect(try run.exit == 0 && run.json().command?.string == "simulate list")
    }

    /// What a file's name brings along does not speak to the terminal.
    @Test func controlCharactersAreWrittenOut() async throws {
        let run = try await Sandbox().run("verify", "a\u{1B}[2Jb")
        #expect(run.exit == 66 && !run.err.contains("\u{1B}") && run.err.contains("\\u{1B}"))
    }
}

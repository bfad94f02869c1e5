import FoundationEssentials
import OTACommands
import Subprocess
import Testing

@Suite("Output: progress, terminal, streams, usage and help") struct OutputTests {
    private func released() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.release()
        return sandbox
    }

    private let push = ["push", "fw.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem"]

    @Test("--progress json writes only JSON events on stderr")
    func progressInJSONIsNothingElse() async throws {
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
        #expect(events.allSatisfy { $0.device?.given?.string == "sim:?pace=virtual&drop-at=0.5" })

        let failed = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:nobody?pace=virtual", "--trust", "release.pub.pem", "--progress", "json"
        )
        #expect(failed.exit == 69 && failed.out.isEmpty)
        let error = try #require(try failed.events().last)
        #expect(error.event?.string == "error" && error.code?.string == "no-such-device" && error.exit?.number == 69)
        let usage = try await sandbox.run("push", "--progress", "json")
        #expect(try usage.events().map { $0.event?.string } == ["error"])
    }

    @Test("each failure as JSON names the device as it was given")
    func failuresNameTheDevice() async throws {
        let sandbox = try await released()
        let failures: [(words: [String], device: String?)] = [
            (["status", "--device", "sim:nobody"], "sim:nobody"), (["push", "--device=sim:a"], "sim:a"),
            (["push", "none.otaf", "--device", "sim:?pace=virtual"], "sim:?pace=virtual"),
            (["gatt", "services", "sim:a"], "sim:a"), (["status", "--device", "tcp:a"], "tcp:a"),
            (["verify", "none.otaf"], nil),
        ]
        for (words, device) in failures {
            let json = try await sandbox.run(words + ["--format", "json"]).json()
            #expect(json.ok?.bool == false && json.device?.given?.string == device, "\(words)")
            #expect(json.device?.members == device.map { _ in ["given"] })
            let event = try await sandbox.run(words + ["--progress", "json"]).events().last
            #expect(event?.event?.string == "error" && event?.device?.given?.string == device, "\(words)")
        }
        // Two devices: the failure cannot name one of them.
        let both = try await sandbox.run("push", "--device", "sim:a", "--device", "sim:b", "--format", "json").json()
        #expect(both.device == nil)
    }

    @Test("--progress lines reports the phases and the percentage without control sequences")
    func progressInLines() async throws {
        let run = try await released().run(push)
        #expect(run.exit == 0)
        for line in ["Connecting\n", "Sending the image\n", "100 %, 20000 of 20000 bytes, ", "confirmed\n"] {
            #expect(run.err.contains(line), "\(line)")
        }
        #expect(run.err.firstMatch(of: #/ 5[0-9] %, 1[01][0-9]{3} of 20000 bytes, /#) != nil, "\(run.err)")
        #expect(!run.err.contains("\u{1B}"))
        let lines = run.err.split(separator: "\n").filter { !$0.hasPrefix("otaflash: note: ") }
        #expect(lines.allSatisfy { $0.hasPrefix("sim: ") }, "\(lines)")
    }

    /// The radio needs several seconds of virtual time. The rate of the last 3 s is higher than the average with a lost link.
    @Test("the last rate of the bar, the lines and the events is the rate of the result")
    func theLastRateIsTheRateOfTheResult() async throws {
        let words = ["push", "fw.otaf", "--device", "sim:?pace=virtual&drop-at=0.3", "--trust", "release.pub.pem"]
        func sandbox() async throws -> Sandbox {
            let sandbox = try Sandbox()
            try await sandbox.release(size: 400_000)
            return sandbox
        }
        let rate = #/([0-9.]+ kB/s)/#
        let lines = try await sandbox().run(words + ["--progress", "lines"])
        let ended = try #require(lines.err.split(separator: "\n").first { $0.contains("100 %") })
        let result = try #require(lines.out.firstMatch(of: rate)?.1)
        #expect(ended.firstMatch(of: rate)?.1 == result, "\(ended) \(lines.out)")
        let run = try await sandbox().run(words + ["--progress", "json", "--format", "json"])
        let event = try #require(try run.events().last { $0.event?.string == "progress" })
        #expect(try event.bytes_per_second?.number == run.json().transfer?.bytes_per_second?.number)
        let (_, screen) = try await sandbox().onTerminal(words, columns: 100)
        let bar = try #require(bars(on: screen).last { $0.contains("100 %") })
        let summary = try #require(screen.split(separator: "bytes took").last?.firstMatch(of: rate)?.1)
        #expect(bar.firstMatch(of: rate)?.1 == summary, "\(bar) \(summary)")
    }

    @Test("the bar shows reconnecting and no rate while the link is down")
    func aBarWithoutALink() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 100_000)
        let (status, screen) = try await sandbox.onTerminal(
            "push", "fw.otaf", "--device", "sim:?drop-at=0.5", "--trust", "release.pub.pem", columns: 100)
        #expect(status == .exited(0))
        let down = try #require(
            screen.split(separator: "; reconnecting").dropFirst().first?.split(separator: "Reconnected").first)
        let drawn = bars(on: String(down)).filter { $0.contains("━") }
        #expect(!drawn.isEmpty && drawn.allSatisfy { $0.contains("reconnecting") && !$0.contains("kB/s") }, "\(drawn)")
        let after = screen.split(separator: "Reconnected").dropFirst().joined()
        #expect(!after.contains(" reconnecting"))
    }

    /// Short commands report progress on a terminal, or with --progress.
    @Test("only push reports progress to a log by default")
    func onlyAPushTellsALogHowFarItIs() async throws {
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

    @Test(
        "a file name with control characters is escaped in every message",
        arguments: ["x\u{1B}[31mred", "x\notaflash: error [usage]: y", "x\u{202E}y", "x\u{9B}y", "it's\r\n"])
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
            #expect(!text.split(separator: "\n").contains("otaflash: error [usage]: y"))
        }
        // The command in the hint runs in a shell that supports $'…'.
        let hint = try #require(missing.err.split(separator: "hint: check the path: ").last)
        let shown = try await sandbox.shell("exec /bin/bash -c \"$1\"", String(hint))
        #expect(shown.exit == 0, "\(hint)\(shown.err)")
    }

    @Test("--quiet and --progress none write nothing to stderr but errors")
    func canBeSilent() async throws {
        let sandbox = try await released()
        let quiet = try await sandbox.run(push + ["--quiet"])
        #expect(quiet.exit == 0 && quiet.err.isEmpty && !quiet.out.isEmpty)
        let failed = try await sandbox.run("status", "--device", "sim:nobody", "--quiet")
        #expect(failed.exit == 69 && failed.err.contains("otaflash: error [no-such-device]: "))
        let none = try await sandbox.run(push + ["--progress", "none"])
        #expect(none.exit == 0 && none.err.isEmpty)
    }

    /// Each new bar replaces the previous one.
    @Test("the progress bar is never wider than the terminal", arguments: [UInt16(100), 60, 30])
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

    /// The bar has the new width when it is next drawn. The push takes a minute, so that a slow machine can react in time. Ctrl-C ends it.
    @Test("the progress bar fits the terminal after a resize")
    func aBarFitsATerminalThatIsResized() async throws {
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
        // The first bars may have the old width. The terminal shows ^C after the last one.
        let later = parts[1].filter { $0.contains("━") }.dropFirst(2).dropLast()
        #expect(later.count > 1 && later.allSatisfy { $0.count < 40 }, "\(parts[1])")
    }

    /// The lines that the terminal overwrote, without colours.
    private func bars(on screen: String) -> [Substring] {
        screen.replacing(/\u{1B}\[[0-9;]*m/, with: "").split(separator: "\r\u{1B}[K")
            .compactMap { $0.split(whereSeparator: \.isNewline).first }
            .filter { $0.contains("━") || $0.contains("…") }
    }

    @Test("NO_COLOR or TERM=dumb removes the colours", arguments: [["NO_COLOR": "1"], ["TERM": "dumb"]])
    func coloursAreLeftOut(environment: [String: String]) async throws {
        let sandbox = try await released()
        let (_, screen) = try await sandbox.onTerminal(
            "push", "fw.otaf", "--device", "sim:nobody", "--trust", "release.pub.pem", env: environment)
        #expect(screen.contains("otaflash: error [") && screen.firstMatch(of: /\u{1B}\[[0-9;]*m/) == nil)
        let (_, coloured) = try await sandbox.onTerminal(
            "push", "fw.otaf", "--device", "sim:nobody", "--trust", "release.pub.pem")
        #expect(coloured.firstMatch(of: /\u{1B}\[[0-9;]*m/) != nil)
    }

    @Test("--verbose writes the log to stderr and leaves the JSON on stdout")
    func theLogIsOnStderr() async throws {
        let run = try await released().run(push + ["--verbose", "--format", "json"])
        #expect(run.exit == 0 && run.err.contains("otaflash: debug: "))
        _ = try run.json()
    }

    // MARK: Closed streams

    @Test("a closed or full stdout ends a command with 74", arguments: [">&-", ">/dev/full"])
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

    @Test("a command exits with 74 when the reader of its stdout is gone")
    func aReaderThatWentAway() async throws {
        let run = try await released().shell(
            "{ sleep 0.2; \"$0\" \"$@\"; echo $? >status; } | true; cat status", "verify", "fw.otaf", "--trust",
            "release.pub.pem")
        #expect(run.out == "74\n")
    }

    /// The first opened file must not get the descriptor of a closed stream.
    @Test("sign with closed streams writes the correct bundle")
    func noFileBecomesAStream() async throws {
        let sandbox = try await released()
        let run = try await sandbox.shell(
            "exec \"$0\" \"$@\" <&- >&- 2>&-", "sign", "fw.bin", "--key", "release.pem", "--product", "demo",
            "--version", "1.1.0",
            "-o", "again.otaf", env: ["SOURCE_DATE_EPOCH": "1767225600"])
        #expect(run.exit == 74)
        #expect(try sandbox.read("again.otaf") == sandbox.read("fw.otaf"))
    }

    // MARK: Usage

    @Test(
        "wrong usage exits with 64 and a hint, and writes nothing to stdout",
        arguments: [
            ["simulate"], ["frobnicate"], ["push"], ["push", "--frobnicate"], ["--format", "xml", "scan"],
            ["push", "fw.otaf", "--device"], ["verify", "a", "b"],
        ])
    func usage(words: [String]) async throws {
        let sandbox = try Sandbox()
        let text = try await sandbox.run(words)
        #expect(text.exit == 64 && text.out.isEmpty)
        #expect(text.err.hasPrefix("otaflash: error [usage]: ") && text.err.contains("\notaflash: hint: "))
        let json = try await sandbox.run(words + ["--format", "json"]).json()
        #expect(json.ok?.bool == false && json.exit?.number == 64 && json.error?.code?.string == "usage")
    }

    @Test(
        "an unknown command is named, with a list of the commands",
        arguments: [["puhs"], ["simulate", "puhs", "demo"], ["gatt", "puhs"], ["puhs", "--help"]])
    func aCommandThatIsNone(words: [String]) async throws {
        let run = try await Sandbox().run(words)
        #expect(
            run.exit == 64 && run.err.contains("there is no command 'puhs'") && run.err.contains("the commands are: "))
    }

    @Test(
        "the JSON of a usage error names the command",
        arguments: zip(
            [["--format", "json", "push"], ["simulate", "create", "--format=json"], ["--format", "json"]],
            ["push", "simulate create", ""]))
    func usageNamesTheCommand(words: [String], command: String) async throws {
        #expect(try await Sandbox().run(words).json().command?.string == command)
    }

    @Test(
        "help is printed to stdout with exit 0",
        arguments: [
            ["--help"], ["-h"], ["help"], ["push", "--help"], ["help", "sign"], ["simulate", "create", "-h"],
        ])
    func help(words: [String]) async throws {
        let run = try await Sandbox().run(words)
        #expect(run.exit == 0 && run.err.isEmpty && run.out.contains("USAGE: otaflash"))
    }

    @Test("--format is accepted before the command")
    func theFormatMayComeFirst() async throws {
        let run = try await Sandbox().run("--format", "json", "simulate", "list")
        #expect(try run.exit == 0 && run.json().command?.string == "simulate list")
    }

    @Test("a control character in a file name is escaped in the message")
    func controlCharactersAreWrittenOut() async throws {
        let run = try await Sandbox().run("verify", "a\u{1B}[2Jb")
        #expect(run.exit == 66 && !run.err.contains("\u{1B}") && run.err.contains("\\u{1B}"))
    }
}

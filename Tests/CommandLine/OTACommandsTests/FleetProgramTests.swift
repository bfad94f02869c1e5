import Testing

/// How `otaflash` finds the commands of `otaflash-fleet`.
@Suite("Commands of otaflash-fleet on the command line of otaflash") struct FleetProgramTests {
    @Test("otaflash runs each command of otaflash-fleet, with its help")
    func all() async throws {
        let sandbox = try Sandbox()
        let dump = try await sandbox.shell(#""$0-fleet" --experimental-dump-help"#)
        let groups = try #require(try JSONValue(parsing: dump.out).command?.subcommands?.array)
        var count = 0
        for group in groups {
            let name = try #require(group.commandName?.string)
            for verb in group.subcommands?.array ?? [] {
                let words = [name, try #require(verb.commandName?.string)]
                let help = try await sandbox.run(words + ["--help"])
                #expect(help.exit == 0 && help.out.contains("USAGE: otaflash \(words[0]) \(words[1])"), "\(help.err)")
                count += 1
            }
        }
        #expect(count >= 11)
    }

    @Test(
        "options before the command are passed to otaflash-fleet",
        arguments: [["rollout", "list"], ["fleet", "devices"]])
    func optionsFirst(words: [String]) async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "ops")
        let operators = words[0] == "rollout" ? ["--operators", "ops.pub.pem"] : []
        let run = try await sandbox.run(["--format", "json"] + words + operators)
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().command?.string == words.joined(separator: " "))
        let wrong = try await sandbox.run(["--format", "json"] + words + ["--nonsense"])
        #expect(try wrong.exit == 64 && wrong.json().command?.string == words.joined(separator: " "))
    }

    @Test(
        "a mistyped command of otaflash-fleet gets a suggestion, also without otaflash-fleet",
        arguments: [
            ("rolout list", "otaflash rollout"), ("gatway run", "otaflash gateway"), ("fleet device", "devices"),
        ])
    func mistyped(typed: String, suggested: String) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run(typed.split(separator: " ").map(String.init))
        #expect(run.exit == 64 && run.err.contains("did you mean: ") && run.err.contains(suggested), "\(run.err)")
        guard !typed.hasPrefix("fleet") else { return }
        let alone = try await sandbox.shell(#"cp "$0" ./otaflash && exec ./otaflash $1"#, typed)
        #expect(alone.err == run.err)
    }

    @Test("without otaflash-fleet, the completion scripts have the commands of otaflash")
    func scriptAlone() async throws {
        let sandbox = try Sandbox()
        let words = "--generate-completion-script bash"
        let alone = try await sandbox.shell(#"cp "$0" ./otaflash && exec ./otaflash $1"#, words)
        let whole = try await sandbox.shell(#"exec "$0" $1"#, words)
        #expect(alone.exit == 0 && alone.out.contains("simulate") && !alone.out.contains("rollout"))
        #expect(whole.exit == 0 && whole.out.contains("simulate") && whole.out.contains("rollout"))
    }

    @Test("without otaflash-fleet, otaflash names the package to install, and the JSON result names the command")
    func absentProgram() async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.shell(
            #"cp "$0" ./otaflash && exec ./otaflash "$@""#, "rollout", "list", "--format", "json")
        #expect(run.exit == 69 && run.err.contains("needs the program otaflash-fleet"), "\(run.err)")
        let result = try run.json()
        #expect(result.command?.string == "rollout list" && result.error?.code?.string == "no-fleet-program")
        #expect(result.error?.hint?.string?.contains("apt install ./otaflash-fleet_") == true, "\(run.out)")
    }
}

import FoundationEssentials
import OTATestSupport
import Testing

/// The tests type on a terminal of an interactive shell with the completion script of `otaflash`.
///
@Suite("Completions in bash, zsh and fish") struct CompletionsTests {
    let sandbox: Sandbox

    init() async throws {
        sandbox = try Sandbox()
        for folder in ["bin", "completions", "files"] { try sandbox.makeFolder(folder) }
        for file in ["firmware.otaf", "other.otaf", "two words.otaf"] { try sandbox.write("files/\(file)", []) }
        try await sandbox.run("keygen", "release")
        for name in ["kitchen", "cellar"] {
            let run = try await sandbox.run(
                "simulate", "create", name, "--product", "acme", "--version", "1.0.0", "--trust", "release.pub.pem")
            try #require(run.exit == 0, "\(run.err)")
        }
    }

    /// Types each line and then a key into one shell, and returns the lines with the changes that the key made.
    private func type(_ lines: [String], _ key: Key, in shell: Shell, startup: String = "") async throws -> [String] {
        try sandbox.write(shell.startupFile, Array((shell.startup + "\n" + startup + "\n").utf8))
        let prompt = "ready> "
        let answers = lines.map { (prompt, $0 + key.rawValue + Key.record.rawValue + "\r") } + [(prompt, "exit\r")]
        let terminal = try await sandbox.onTerminal(shell.rawValue, typing: answers, script: shell.script)
        try #require(sandbox.exists("lines"), "\(terminal.screen)")
        let recorded = String(decoding: try sandbox.read("lines"), as: UTF8.self).split(separator: "\n").map(
            String.init)
        try #require(recorded.count == lines.count, "\(terminal.screen)")
        return recorded
    }

    /// Checks that Tab changes each line as expected. The lines are without `otaflash`.
    private func expectTab(
        _ expected: KeyValuePairs<String, String>, in shell: Shell, startup: String = "",
        at location: SourceLocation = #_sourceLocation
    ) async throws {
        let typed = expected.map { "otaflash \($0.key)" }
        let completed = try await type(typed, .tab, in: shell, startup: startup)
        for (line, expected) in zip(completed, expected) {
            #expect(line == "otaflash \(expected.value)|", sourceLocation: location)
        }
    }

    /// Returns the completions of the last word of each line, sorted. A completion that is equal to this word is omitted.
    private func completions(of lines: [String], in shell: Shell) async throws -> [[String]] {
        let changed = try await type(lines.map { "otaflash \($0)" }, .insertAll, in: shell)
        return zip(lines, changed).map { line, changed in
            let last = String(line.reversed().prefix { $0 != " " }.reversed())
            // bash replaces only the text after the colon.
            let kept = last.contains(":") ? "\(last.prefix { $0 != ":" }):" : ""
            let inserted = changed.dropFirst("otaflash ".count + line.count - last.count).dropLast()
            let words = inserted.split(separator: " ").map { $0.hasPrefix(kept) ? String($0) : kept + $0 }
            return words.filter { $0 != last }.sorted()
        }
    }

    @Test("Tab completes a command, an option and a value", arguments: Shell.allCases)
    fileprivate func completesWords(in shell: Shell) async throws {
        try await expectTab(
            [
                "pu": "push ", "simulate cr": "simulate create ", "confirm --dev": "confirm --device ",
                "push --protocol sm": "push --protocol smp ", "simulate remove cel": "simulate remove cellar ",
                "simulate serve k": "simulate serve kitchen ",
            ], in: shell)
    }

    @Test("Tab completes the commands, options and values of otaflash-fleet", arguments: Shell.allCases)
    fileprivate func completesFleets(in shell: Shell) async throws {
        try await expectTab(
            [
                "gate": "gateway ", "rollout st": "rollout status ", "release pub": "release publish ",
                "rollout create spring --sel": "rollout create spring --select ",
                "fleet devices --state giv": "fleet devices --state given-up ",
                "gateway run --device sim:k": "gateway run --device sim:kitchen ",
                "release publish fi": "release publish firmware.otaf ",
            ], in: shell)
    }

    @Test(
        "Tab completes the address of a device, without a space after the beginning of an address",
        arguments: Shell.allCases)
    fileprivate func completesAddresses(in shell: Shell) async throws {
        try await expectTab(
            [
                "push --device ud": "push --device udp:", "push --device udp:": "push --device udp:",
                "push --device bl": "push --device ble:", "push --device ble:n": "push --device ble:name=",
                "push --device sim:k": "push --device sim:kitchen ",
                "push firmware.otaf --device sim:ce": "push firmware.otaf --device sim:cellar ",
            ], in: shell)
    }

    @Test("Tab completes the words after an address or a value that contains : or =", arguments: Shell.allCases)
    fileprivate func completesAfterAddresses(in shell: Shell) async throws {
        try await expectTab(
            [
                "push --device sim:kitchen --time": "push --device sim:kitchen --timeout ",
                "push --device ble:name=lamp --protocol sm": "push --device ble:name=lamp --protocol smp ",
                "push --device=sim:kitchen --time": "push --device=sim:kitchen --timeout ",
                "push --format=json --time": "push --format=json --timeout ",
            ], in: shell)
    }

    @Test("Tab completes the name of a file, with an escaped space", arguments: Shell.allCases)
    fileprivate func completesFiles(in shell: Shell) async throws {
        try await expectTab(
            [
                "verify fi": "verify firmware.otaf ", "verify tw": #"verify two\ words.otaf "#,
                "push --trust ot": "push --trust other.otaf ",
            ], in: shell)
    }

    @Test("Tab completes a value after =", arguments: [Shell.bash, .fish])
    fileprivate func completesJoinedValues(in shell: Shell) async throws {
        try await expectTab(
            [
                "push --device=sim:k": "push --device=sim:kitchen ", "push --protocol=sm": "push --protocol=smp ",
                "push --device=ud": "push --device=udp:", "push --trust=fi": "push --trust=firmware.otaf ",
            ], in: shell)
    }

    @Test("in bash, Tab completes an address also if COMP_WORDBREAKS does not contain : and =")
    func completesWholeWords() async throws {
        try await expectTab(
            [
                "push --device sim:k": "push --device sim:kitchen ",
                "push --device=sim:k": "push --device=sim:kitchen ",
                "push --device ble:n": "push --device ble:name=",
            ], in: .bash, startup: "COMP_WORDBREAKS=${COMP_WORDBREAKS//[:=]}")
    }

    @Test("each shell offers all commands, values, devices, adapters and files", arguments: Shell.allCases)
    fileprivate func offersAll(in shell: Shell) async throws {
        let offered = try await completions(
            of: ["s", "push --protocol ", "push --device sim:", "push --adapter ", "verify ", "push --device "],
            in: shell)
        #expect(offered[0] == ["scan", "sign", "simulate", "status"])
        #expect(offered[1] == ["auto", "ota", "smp"])
        #expect(offered[2] == ["sim:cellar", "sim:kitchen"])
        // Without D-Bus, otaflash offers the adapters that the kernel lists.
        let links = (try? FileManager.default.contentsOfDirectory(atPath: "/sys/class/bluetooth")) ?? []
        #expect(offered[3] == links.filter { !$0.contains(":") }.sorted())
        #expect(offered[4].starts(with: ["firmware.otaf", "other.otaf"]))
        let addresses = ["ble:", "ble:name=", "sim:", "sim:cellar", "sim:kitchen", "udp:"]
        #expect(offered[5].filter { !$0.hasPrefix("serial:/") } == addresses)
    }
}

/// The keys that the tests type after a line. The startup files of the shells define all but Tab.
private enum Key: String {
    case tab = "\t"
    /// Replaces the last word by all its completions.
    case insertAll = "\u{18}a"
    /// Appends the line to the file `lines`, with `|` at its end, and clears it.
    case record = "\u{18}r"
}

private enum Shell: String, CaseIterable {
    case bash, zsh, fish

    /// Installs the completion script as a package does (zsh and fish find it by its name), and starts the shell in the folder `files`.
    var script: String {
        let (file, start) =
            switch self {
            case .bash: ("bash", "INPUTRC=/dev/null bash --noprofile --rcfile ../startup -i")
            case .zsh: ("_otaflash", "ZDOTDIR=.. zsh --no-global-rcs -i")
            case .fish: ("otaflash.fish", "fish --no-config --init-command 'source ../startup' --interactive")
            }
        return """
            set -e
            ln -s "$0" bin/otaflash
            "$0" --generate-completion-script "$1" >completions/\(file)
            cd files
            PATH=$PWD/../bin:$PATH
            export PATH
            \(start)
            """
    }

    var startupFile: String { self == .zsh ? ".zshrc" : "startup" }

    var startup: String {
        switch self {
        case .bash:
            #"""
            PS1='ready> '
            . ../completions/bash
            bind '"\C-xa": insert-completions'
            record() { printf '%s|\n' "$READLINE_LINE" >>../lines; READLINE_LINE=; }
            bind -x '"\C-xr": record'
            """#
        case .zsh:
            """
            PS1='ready> '
            fpath=($PWD/../completions $fpath)
            autoload -Uz compinit
            compinit -D -u
            zle -C insert-all complete-word _generic
            zstyle ':completion:insert-all::::' completer _all_matches _complete
            zstyle ':completion:insert-all:*' insert true
            bindkey '^Xa' insert-all
            record() { print -r -- "$BUFFER|" >>../lines; BUFFER= }
            zle -N record
            bindkey '^Xr' record
            """
        case .fish:
            #"""
            function fish_prompt; echo -n 'ready> '; end
            set fish_greeting
            set fish_autosuggestion_enabled 0
            set fish_complete_path $PWD/../completions
            bind \cxa 'commandline --current-token -- (string join " " (complete -C | string replace --regex "\t.*" ""))'
            bind \cxr 'echo (commandline)"|" >>../lines; commandline ""'
            """#
        }
    }
}

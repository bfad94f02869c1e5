import OTATestSupport
import Testing

/// The completions are tested with the completion function of each shell, for a word that a user has begun to type.
@Suite("Shell completions") struct CompletionsTests {
    let sandbox: Sandbox

    init() async throws {
        sandbox = try Sandbox()
        for name in ["kitchen", "cellar"] {
            let run = try await sandbox.run("simulate", "create", name, "--protocol", "smp", "--product", "acme", "--version", "1.0.0")
            try #require(run.exit == 0, "\(run.err)")
        }
    }

    /// Completes the last word of a line, and returns the offered words in their order.
    private func complete(_ line: String, in shell: Shell) async throws -> [String] {
        let run = try await sandbox.shell(
            "set -e; mkdir -p bin; ln -sf \"$0\" bin/otaflash; PATH=$PWD/bin:$PATH; export PATH\n"
                + "otaflash --generate-completion-script \(shell.rawValue) >script\n" + shell.script, line)
        #expect(run.exit == 0 && run.err.isEmpty, "\(run.err)")
        return run.out.split(separator: "\n").map(String.init)
    }

    enum Shell: String, CaseIterable {
        case bash, fish

        /// A script for /bin/sh that prints the completions of `$1`, one per line.
        fileprivate var script: String {
            switch self {
            case .bash:
                // Readline splits the words of a line as this loop does: at spaces, and before and after each colon.
                #"""
                exec bash --norc -c '
                    compopt() { :; }
                    . ./script
                    COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=()
                    for word in $1; do
                        while [[ $word == *:* ]]; do
                            [[ -z ${word%%:*} ]] || COMP_WORDS+=("${word%%:*}")
                            COMP_WORDS+=(:) word=${word#*:}
                        done
                        [[ -z $word ]] || COMP_WORDS+=("$word")
                    done
                    [[ $1 != *" " ]] || COMP_WORDS+=("")
                    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
                    current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
                    [[ $current != : ]] || current=
                    function=$(complete -p otaflash | sed "s/.*-F \([^ ]*\).*/\1/")
                    "$function" otaflash "$current" "$previous"
                    [[ ${#COMPREPLY[@]} -eq 0 ]] || printf "%s\n" "${COMPREPLY[@]}"
                ' bash "$1"
                """#
            case .fish: #"exec fish --no-config -c 'source script; complete --do-complete $argv[1]' "$1""#
            }
        }
    }

    @Test("--device offers the virtual devices in fish")
    func fishOffersVirtualDevices() async throws {
        #expect(try await complete("otaflash status --device sim:", in: .fish) == ["sim:", "sim:cellar", "sim:kitchen"])
        #expect(try await complete("otaflash push fw.otaf --device sim:ki", in: .fish) == ["sim:kitchen"])
    }

    @Test("--device offers the virtual devices in bash, which splits an address at its colon")
    func bashOffersVirtualDevices() async throws {
        #expect(try await complete("otaflash status --device sim:", in: .bash) == ["", "cellar", "kitchen"])
        #expect(try await complete("otaflash push fw.otaf --device sim:ki", in: .bash) == ["kitchen"])
    }

    @Test("--device offers the beginning of each kind of address", arguments: Shell.allCases)
    func offersTransports(_ shell: Shell) async throws {
        let offered = try await complete("otaflash status --device ", in: shell)
        #expect(Set(offered).isSuperset(of: ["ble:", "ble:name=", "udp:", "sim:", "sim:kitchen"]))
        #expect(try await complete("otaflash status --device ud", in: shell) == ["udp:"])
    }

    @Test("options and values without a colon are completed as before", arguments: Shell.allCases)
    func offersOptions(_ shell: Shell) async throws {
        let offered = try await complete("otaflash status --device sim:kitchen --time", in: shell)
        #expect(offered.first?.hasPrefix("--timeout") == true, "\(offered)")
        #expect(try await complete("otaflash status --protocol sm", in: shell) == ["smp"])
    }

    @Test("verbs of simulate offer the names of the virtual devices", arguments: Shell.allCases, ["remove", "serve"])
    func offersNames(_ shell: Shell, _ verb: String) async throws {
        #expect(try await complete("otaflash simulate \(verb) cel", in: shell) == ["cellar"])
    }
}

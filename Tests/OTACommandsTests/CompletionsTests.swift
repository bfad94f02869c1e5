import OTATestSupport
import Testing

/// The tests call bash's completion function with a word that a user has begun to type.
@Suite("Completions in bash") struct CompletionsTests {
    let sandbox: Sandbox

    init() async throws {
        sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        for name in ["kitchen", "cellar"] {
            let run = try await sandbox.run(
                "simulate", "create", name, "--product", "acme", "--version", "1.0.0", "--trust", "release.pub.pem")
            try #require(run.exit == 0, "\(run.err)")
        }
    }

    /// Completes the last word of a line, and returns the offered texts. Each replaces the text after the last colon of the word.
    private func complete(_ line: String) async throws -> [String] {
        let run = try await sandbox.shell(Self.script, line)
        #expect(run.exit == 0 && run.err.isEmpty, "\(run.err)")
        return run.out.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
    }

    /// Prints the completions of `$1`, one per line. Readline splits a line as the loop does: at spaces, and before and after each colon.
    private static let script = #"""
        set -e
        mkdir -p bin
        ln -sf "$0" bin/otaflash
        PATH=$PWD/bin:$PATH
        export PATH
        otaflash --generate-completion-script bash >script
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
            completion=$(complete -p otaflash | sed "s/.*-F \([^ ]*\).*/\1/")
            "$completion" otaflash "$current" "$previous"
            [[ ${#COMPREPLY[@]} -eq 0 ]] || printf "%s\n" "${COMPREPLY[@]}"
        ' bash "$1"
        """#

    @Test("--device offers the virtual devices, although bash splits an address at its colon")
    func offersVirtualDevices() async throws {
        #expect(try await complete("otaflash status --device sim:") == ["", "cellar", "kitchen"])
        #expect(try await complete("otaflash push fw.otaf --device sim:ki") == ["kitchen"])
    }

    @Test("--device offers the beginning of each kind of address")
    func offersTransports() async throws {
        let offered = try await complete("otaflash status --device ")
        #expect(Set(offered).isSuperset(of: ["ble:", "ble:name=", "udp:", "sim:", "sim:kitchen"]), "\(offered)")
        #expect(try await complete("otaflash status --device ud") == ["udp:"])
    }

    @Test("options and values are completed after an address with a colon")
    func offersOptions() async throws {
        #expect(try await complete("otaflash status --device sim:kitchen --time") == ["--timeout"])
        #expect(try await complete("otaflash status --device sim:kitchen --protocol sm") == ["smp"])
    }

    @Test("simulate remove and simulate serve offer the virtual devices", arguments: ["remove", "serve"])
    func offersNames(_ verb: String) async throws {
        #expect(try await complete("otaflash simulate \(verb) cel") == ["cellar"])
    }
}

import Glibc
import OTAFirmware
import Subprocess
import SystemPackage
import Testing

@Suite("Command keygen and its passphrase prompt") struct KeygenTests {
    @Test("keygen writes a key pair that openssl reads, and reports its key ID")
    func makesAKeyPair() async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("keygen", "release", "--format", "json")
        #expect(run.exit == 0)
        let key = try #require(try run.json().key)
        #expect(key.private?.string == "release.pem" && key.public?.string == "release.pub.pem")
        #expect(key.encrypted?.bool == false)
        let ofPrivate = try await sandbox.openssl("pkey", "-in", "release.pem", "-pubout", "-outform", "DER")
        let ofPublic = try await sandbox.openssl("pkey", "-pubin", "-in", "release.pub.pem", "-outform", "DER")
        #expect(ofPrivate == ofPublic && ofPublic.count == 44)
        try sandbox.write("raw", Array(ofPublic.suffix(32)))
        let digest = try await sandbox.openssl("dgst", "-sha256", "-binary", "raw")
        #expect(key.key_id?.string == Hex.encode(digest.prefix(8)))
    }

    @Test(
        "keygen ignores the suffixes of key files in the name",
        arguments: ["release.pem", "release.pub.pem", "release.pub", "release.pub.pub.pem"])
    func ignoresTheSuffix(name: String) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("keygen", name, "--format", "json")
        #expect(try run.json().key?.private?.string == "release.pem")
        #expect(sandbox.exists("release.pem") && sandbox.exists("release.pub.pem"))
    }

    @Test(
        "keygen warns of a passphrase with fewer than 12 bytes",
        arguments: [("eleven byte", true), ("twelve bytes", false)])
    func warnsOfAShortPassphrase(passphrase: String, warns: Bool) async throws {
        let run = try await Sandbox().run("keygen", "release", "--passphrase-env", "PASS", env: ["PASS": passphrase])
        #expect(
            run.exit == 0 && run.err.contains("the passphrase has only \(passphrase.utf8.count) bytes") == warns,
            "\(run.err)")
    }

    @Test("the private key file has mode 600 under every umask")
    func keepsThePrivateKeyToItsOwner() async throws {
        let sandbox = try Sandbox()
        #expect(try await sandbox.shell("umask 0; exec \"$0\" \"$@\"", "keygen", "release").exit == 0)
        #expect(try FilePath(sandbox.path("release.pem")).stat().permissions == .ownerReadWrite)
    }

    @Test(
        "keygen refuses to overwrite an existing key file and leaves no half key pair",
        arguments: ["release.pem", "release.pub.pem"])
    func neverOverwrites(existing: String) async throws {
        let sandbox = try Sandbox()
        try sandbox.write(existing, [1, 2, 3])
        let run = try await sandbox.run("keygen", "release", "--format", "json")
        #expect(run.exit == 73)
        #expect(try run.json().error?.code?.string == "output-exists")
        #expect(try sandbox.read(existing) == [1, 2, 3])
        #expect(
            sandbox.exists("release.pem") != sandbox.exists("release.pub.pem"), "keygen left one file of a key pair")
    }

    @Test("keygen in a folder that does not exist exits with 73")
    func cannotCreate() async throws {
        #expect(try await Sandbox().run("keygen", "missing/release").exit == 73)
    }

    @Test(
        "keygen encrypts the private key with a passphrase from a file descriptor or a variable",
        arguments: [
            ["--passphrase-fd", "3"], ["--encrypt", "--passphrase-fd", "3"],
            ["--encrypt", "--passphrase-env", "SECRET"],
        ])
    func encrypts(options: [String]) async throws {
        let sandbox = try Sandbox()
        try sandbox.write("secret", Array("correct horse\n".utf8))
        let run = try await sandbox.shell(
            "exec \"$0\" keygen release --format json \(options.joined(separator: " ")) 3<secret",
            env: ["SECRET": "correct horse"])
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().key?.encrypted?.bool == true)
        #expect(try String(decoding: sandbox.read("release.pem"), as: UTF8.self).contains("ENCRYPTED PRIVATE KEY"))
        let opened = try await sandbox.openssl(
            "pkey", "-in", "release.pem", "-passin", "pass:correct horse", "-pubout")
        #expect(try opened == sandbox.read("release.pub.pem"))
    }

    @Test("keygen asks for the passphrase twice on a terminal and does not display it")
    func asksTwiceOnATerminalAndShowsNothing() async throws {
        let sandbox = try Sandbox()
        let (status, screen) = try await sandbox.onTerminal(
            "keygen", "release", "--encrypt",
            typing: [("Passphrase", "correct horse\n"), ("Repeat", "correct horse\n")])
        #expect(status == .exited(0), "\(screen)")
        #expect(!screen.contains("horse"))
        _ = try await sandbox.openssl("pkey", "-in", "release.pem", "-passin", "pass:correct horse", "-pubout")
    }

    @Test("keygen refuses two different passphrases and writes no key")
    func refusesTwoDifferentPassphrases() async throws {
        let sandbox = try Sandbox()
        let (status, screen) = try await sandbox.onTerminal(
            "keygen", "release", "--encrypt", typing: [("Passphrase", "one\n"), ("Repeat", "two\n")])
        #expect(status == .exited(77))
        #expect(screen.contains("passphrases differ"))
        #expect(!sandbox.exists("release.pem") && !sandbox.exists("release.pub.pem"))
    }

    @Test("Ctrl-C at the passphrase prompt ends keygen, restores the echo and leaves no private key")
    func isInterruptedAtThePrompt() async throws {
        let sandbox = try Sandbox()
        let (status, screen) = try await sandbox.onTerminal(
            "keygen", "release", "--encrypt", typing: [("Passphrase", "\u{3}")],
            script: "trap : INT; \"$0\" \"$@\"; status=$?; stty -a; exit $status")
        #expect(status == .exited(130), "\(screen)")
        #expect(screen.contains("interrupted") && screen.contains(" echo "))
        #expect(!sandbox.exists("release.pem"))
    }

    @Test("Ctrl-\\ at the passphrase prompt ends keygen, restores the echo and leaves no file")
    func quitAtThePrompt() async throws {
        let sandbox = try Sandbox()
        let (status, screen) = try await sandbox.onTerminal(
            "keygen", "release", "--encrypt", typing: [("Passphrase", "\u{1C}")],
            script: "ulimit -c unlimited; trap : QUIT; \"$0\" \"$@\"; status=$?; stty -a; ls -A; exit $status")
        #expect(status == .exited(130), "\(screen)")
        #expect(screen.contains("interrupted") && screen.contains(" echo "))
        #expect(!screen.contains("core dumped") && !sandbox.exists("release.pem") && !sandbox.exists("core"))
    }

    @Test("Ctrl-Z at the passphrase prompt restores the echo, and keygen asks again when it continues")
    func stoppedAtThePrompt() async throws {
        let sandbox = try Sandbox()
        let (status, screen) = try await sandbox.onTerminal(
            "keygen", "release", "--encrypt",
            typing: [
                ("Passphrase", "half\u{1A}"), ("Passphrase", "correct horse\n"), ("Repeat", "correct horse\n"),
            ],
            script: "set -m; \"$0\" \"$@\"; stty -a; fg")
        #expect(status == .exited(0), "\(screen)")
        #expect(screen.contains(" echo ") && !screen.contains("-echo ") && !screen.contains("horse"), "\(screen)")
        _ = try await sandbox.openssl("pkey", "-in", "release.pem", "-passin", "pass:correct horse", "-pubout")
    }

    /// Waits until the first answer is typed, then sends the signal to keygen, whose process id is in the file `pid`.
    private static func signalling(_ signal: String, then rest: String) -> String {
        """
        (while [ ! -e typed ] && [ -e /proc/$$ ]; do sleep 0.01; done; kill -\(signal) $(cat pid)) &
        \(rest)
        """
    }

    @Test(
        "a signal that ends keygen at the passphrase prompt restores the echo and discards the typed characters",
        arguments: [
            "HUP", "TERM", "ALRM", "USR1", "USR2", "VTALRM", "PROF", "XCPU", "IO", "PWR", "16", "34", "64",
        ])
    func endedBySignal(signal: String) async throws {
        let sandbox = try Sandbox()
        let script = Self.signalling(
            signal,
            then: """
                trap : HUP
                sh -c 'echo $$ >pid; exec "$0" "$@"' "$0" "$@"; status=$?
                stty -a; IFS= read -r rest; echo "<$rest>"; exit $status
                """)
        let (status, screen) = try await sandbox.onTerminal(
            "keygen", "release", "--encrypt", typing: [("Passphrase", "half"), ("speed", "\n")],
            script: script)
        #expect(status == .exited(signal == "TERM" ? 143 : 130), "\(screen)")
        #expect(screen.contains("interrupted") && screen.contains(" echo ") && screen.contains("<>"), "\(screen)")
        #expect(!sandbox.exists("release.pem"))
    }

    @Test(
        "a signal that stops keygen at the passphrase prompt restores the echo, and keygen asks again when it continues",
        arguments: ["TSTP", "TTIN", "TTOU"])
    func stoppedBySignal(signal: String) async throws {
        let sandbox = try Sandbox()
        let script =
            "set -m; "
            + Self.signalling(
                signal,
                then: "sh -c 'echo $$ >pid; exec \"$0\" \"$@\"' \"$0\" \"$@\"; stty -a; fg %%")
        let (status, screen) = try await sandbox.onTerminal(
            "keygen", "release", "--encrypt",
            typing: [("Passphrase", "half"), ("Passphrase", "correct horse\n"), ("Repeat", "correct horse\n")],
            script: script)
        #expect(status == .exited(0), "\(screen)")
        #expect(screen.contains(" echo ") && !screen.contains("-echo ") && !screen.contains("horse"), "\(screen)")
        _ = try await sandbox.openssl("pkey", "-in", "release.pem", "-passin", "pass:correct horse", "-pubout")
    }

    @Test("keygen in the background stops before its passphrase prompt, and asks with the echo off in the foreground")
    func promptsInTheForeground() async throws {
        let sandbox = try Sandbox()
        let (status, screen) = try await sandbox.onTerminal(
            "keygen", "release", "--encrypt",
            typing: [("Passphrase", "correct horse\n"), ("Repeat", "correct horse\n")],
            script: """
                set -m; "$0" "$@" &
                while ! grep -q "^State:.T" /proc/$!/status && [ -e /proc/$! ]; do sleep 0.01; done; stty -a; fg
                """)
        #expect(status == .exited(0), "\(screen)")
        #expect(screen.contains(" echo ") && !screen.contains("-echo ") && !screen.contains("horse"), "\(screen)")
        _ = try await sandbox.openssl("pkey", "-in", "release.pem", "-passin", "pass:correct horse", "-pubout")
    }

    @Test("SIGPIPE and an ignored signal do not end the passphrase prompt")
    func ignoredSignals() async throws {
        let sandbox = try Sandbox()
        let script = """
            (while [ ! -e typed ] && [ -e /proc/$$ ]; do sleep 0.01; done; kill -PIPE $(cat pid); kill -USR1 $(cat pid); echo sent) &
            trap '' USR1; echo $$ >pid; exec "$0" "$@"
            """
        let (status, screen) = try await sandbox.onTerminal(
            "keygen", "release", "--encrypt",
            typing: [("Passphrase", "correct "), ("sent", "horse\n"), ("Repeat", "correct horse\n")], script: script)
        #expect(status == .exited(0), "\(screen)")
    }

    @Test("keygen --encrypt without a passphrase names the three ways to give one")
    func saysTheThreeWaysToAPassphrase() async throws {
        let run = try await Sandbox().run("keygen", "release", "--encrypt", "--format", "json")
        #expect(run.exit == 77)
        let error = try #require(try run.json().error)
        #expect(error.code?.string == "passphrase-required")
        for way in ["--passphrase-fd", "--passphrase-env", "terminal"] {
            #expect(error.hint?.string?.contains(way) == true)
        }
    }
}

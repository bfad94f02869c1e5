import Glibc
import Subprocess
import SystemPackage
import Testing

@Suite("Command verify and the trust store") struct VerifyTests {
    @Test("verify --format json reports the algorithm, trust and validity of each signature")
    func answersInJSON() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.run("verify", "fw.otaf", "--trust", "release.pub.pem", "--format", "json")
        #expect(run.exit == 0 && run.err.isEmpty)
        let json = try run.json()
        #expect(json.members == ["bundle", "command", "counted_signers", "exit", "ok", "schema"] && !json.holdsNull)
        let signature = try #require(json.bundle?.signatures?[0])
        #expect(signature.members == ["algorithm", "key_id", "trusted", "valid"])
        #expect(signature.trusted?.bool == true && signature.valid?.bool == true)
        #expect(signature.algorithm?.string == "ed25519" && signature.key_id?.string?.count == 16)
    }

    static let demands: [(options: [String], exit: Int32)] = [
        ([], 0), (["--product", "demo", "--hardware", "3", "--counter", "4"], 0), (["--product", "other"], 77),
        (["--hardware", "9"], 77), (["--counter", "5"], 77), (["--product", "no product"], 64),
        (["--hardware", "65536"], 64), (["--counter", "x"], 64),
    ]

    @Test("verify compares product, hardware and counter of the bundle with the options", arguments: demands)
    func holdsTheBundleAgainstWhatIsAsked(options: [String], exit: Int32) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release("--hardware", "1..3", "--counter", "4")
        let run = try await sandbox.run(["verify", "fw.otaf", "--trust", "release.pub.pem"] + options)
        #expect(run.exit == exit, "\(run.err)")
    }

    @Test("verify refuses a bundle whose image or manifest was changed after signing")
    func refusesWhatWasChanged() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        var bundle = try sandbox.read("fw.otaf")
        bundle[bundle.count - 1] ^= 1
        try sandbox.write("image.otaf", bundle)
        let image = try await sandbox.run("verify", "image.otaf", "--trust", "release.pub.pem", "--format", "json")
        #expect(image.exit == 77)
        #expect(try image.json().error?.code?.string == "digest-mismatch")
        bundle = try sandbox.read("fw.otaf")
        bundle[16] ^= 1
        try sandbox.write("counter.otaf", bundle)
        let manifest = try await sandbox.run("verify", "counter.otaf", "--trust", "release.pub.pem", "--format", "json")
        #expect(manifest.exit == 77)
        #expect(try manifest.json().error?.code?.string == "bad-signature")
    }

    @Test(
        "verify, push and inspect do not trust a key outside its scope, and the message names the scope file"
    )
    func obeysTheScopeOfAKey() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.write("release.pub.pem.scope", Array("product = toaster\n".utf8))
        let verified = try await sandbox.run("verify", "fw.otaf", "--trust", "release.pub.pem", "--format", "json")
        let pushed = try await sandbox.push()
        for run in [verified, pushed] {
            #expect(run.exit == 77)
            let error = try run.json().error
            #expect(error?.code?.string == "key-out-of-scope")
            #expect(error?.message?.string?.contains("release.pub.pem.scope limits it to bundles of toaster") == true)
            #expect(error?.hint?.string?.contains("change the scope file") == true)
        }
        let inspected = try await sandbox.run("inspect", "fw.otaf", "--trust", "release.pub.pem", "--format", "json")
        let json = try inspected.json()
        #expect(json.verified?.bool == false && json.bundle?.signatures?[0]?.out_of_scope?.bool == true)
        #expect(json.bundle?.signatures?[0]?.trusted?.bool == false)

        // The limit of each key is shown where the trusted keys are listed.
        let doctor = try await sandbox.run(
            "doctor", "--trust", "release.pub.pem", "--format", "json",
            env: ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=\(sandbox.path("none"))"])
        let trust = try doctor.json().checks?.array?.first { $0.name?.string == "trust" }
        #expect(trust?.message?.string?.contains("(bundles of toaster only)") == true, "\(doctor.out)")

        try await sandbox.mcuboot()
        let image = try await sandbox.run("verify", "fw.signed.bin", "--trust", "release.pub.pem", "--format", "json")
        #expect(image.exit == 77)
        #expect(try image.json().error?.code?.string == "key-out-of-scope")
        // --unverified-image does not override the scope of the user's own key.
        for options in [[], ["--unverified-image"]] {
            let run = try await sandbox.run(
                [
                    "push", "fw.signed.bin", "--device", "udp:127.0.0.1:9", "--trust", "release.pub.pem", "--format",
                    "json",
                ]
                    + options)
            let error = try run.json().error
            #expect(run.exit == 77 && error?.code?.string == "key-out-of-scope", "\(run.out)")
            #expect(error?.hint?.string?.contains("--unverified-image") == false)
        }

        try sandbox.write("release.pub.pem.scope", Array("product = toaster, demo\n".utf8))
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "release.pub.pem").exit == 0)
        try sandbox.write("release.pub.pem.scope", Array("# demo only\nproducts = demo\n".utf8))
        let misspelt = try await sandbox.run("verify", "fw.otaf", "--trust", "release.pub.pem", "--format", "json")
        #expect(misspelt.exit == 65)
        #expect(try misspelt.json().error?.code?.string == "bad-trust-scope")
        #expect(try misspelt.json().error?.message?.string?.contains("release.pub.pem.scope:2: 'products'") == true)
    }

    @Test("verify refuses a bundle that is not signed by a trusted key")
    func refusesWhoIsNotTrusted() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.run("keygen", "other")
        let run = try await sandbox.run("verify", "fw.otaf", "--trust", "other.pub.pem", "--format", "json")
        #expect(run.exit == 77)
        let json = try run.json()
        #expect(json.members == ["command", "error", "exit", "ok", "schema"])
        #expect(json.ok?.bool == false && json.exit?.number == 77 && json.command?.string == "verify")
        #expect(json.error?.members == ["code", "hint", "message"])
        #expect(json.error?.code?.string == "untrusted-key")
        #expect(run.err.hasPrefix("otaflash: error [untrusted-key]: ") && run.err.contains("\notaflash: hint: "))
    }

    @Test("the command in the hint of verify keeps all options of the failed command")
    func whatIsToBeTypedKeepsTheDemands() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.run("keygen", "other")
        let run = try await sandbox.run(
            "verify", "fw.otaf", "--trust", "other.pub.pem", "--product", "demo", "--hardware", "2", "--counter", "0",
            "--allow-demo-key", "--format", "json")
        let demands = "--product demo --hardware 2 --counter 0 --allow-demo-key --trust KEY.pub.pem"
        #expect(try run.json().error?.hint?.string?.hasSuffix("--trust other.pub.pem \(demands)") == true, "\(run.out)")
        // With --trust, a command does not use the folder of the variable. Its policy must not be lost.
        let usual = try await sandbox.run(
            "verify", "fw.otaf", "--format", "json", env: ["OTAFLASH_TRUST": sandbox.path("other.pub.pem")])
        let paths = "--trust \(sandbox.path("other.pub.pem")) --trust KEY.pub.pem"
        #expect(try usual.json().error?.hint?.string?.hasSuffix(paths) == true, "\(usual.out)")
    }

    @Test("the command in the hint of verify reads a file whose name begins with a hyphen")
    func fileNameWithAHyphen() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.run("keygen", "other")
        try sandbox.write("-x.otaf", sandbox.read("fw.otaf"))
        let run = try await sandbox.run("verify", "--trust", "other.pub.pem", "--", "-x.otaf")
        #expect(run.exit == 77 && run.err.contains("otaflash verify ./-x.otaf --trust other.pub.pem"), "\(run.err)")
    }

    // MARK: Sources of trusted keys

    @Test("trusted keys come from --trust, else from OTAFLASH_TRUST, else from the trust folder")
    func trustIsFound() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let trust = sandbox.home.appending(".config/otaflash/trust")
        try sandbox.makeFolder("home/.config/otaflash/trust")
        try sandbox.write("home/.config/otaflash/trust/release.pub.pem", sandbox.read("release.pub.pem"))
        // Only files named *.pub.pem are read.
        try sandbox.write("home/.config/otaflash/trust/notes.txt", [1])
        #expect(try await sandbox.run("verify", "fw.otaf").exit == 0)
        #expect(try await sandbox.run("verify", "fw.otaf", env: ["XDG_CONFIG_HOME": "/nowhere"]).exit == 77)
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", trust.string).exit == 0)

        // The variable replaces the folder. The option replaces the variable.
        try await sandbox.run("keygen", "other")
        #expect(
            try await sandbox.run("verify", "fw.otaf", env: ["OTAFLASH_TRUST": sandbox.path("other.pub.pem")]).exit
                == 77)
        let both = ["OTAFLASH_TRUST": "\(sandbox.path("other.pub.pem")):\(sandbox.path("release.pub.pem"))"]
        #expect(try await sandbox.run("verify", "fw.otaf", env: both).exit == 0)
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "other.pub.pem", env: both).exit == 77)
    }

    /// An unpacked archive must not be able to add trusted keys.
    @Test("verify does not trust keys in the current directory")
    func theCurrentFolderIsNoTrust() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        for folder in ["trust", "otaflash/trust", ".config/otaflash/trust"] {
            try sandbox.makeFolder(folder)
            try sandbox.write(folder + "/release.pub.pem", sandbox.read("release.pub.pem"))
        }
        for environment in [[:], ["XDG_CONFIG_HOME": "."], ["XDG_CONFIG_HOME": ""], ["OTAFLASH_TRUST": ""]] {
            let run = try await sandbox.run("verify", "fw.otaf", "--format", "json", env: environment)
            #expect(run.exit == 77)
            let error = try #require(try run.json().error)
            #expect(error.code?.string == "no-trusted-key")
            #expect(error.hint?.string?.contains("otaflash verify fw.otaf --trust KEY.pub.pem\n") == true)
            #expect(
                error.hint?.string?.contains("mkdir -p") == true
                    && error.hint?.string?.contains("install -m 644") == true)
        }
    }

    @Test(
        "a relative path in OTAFLASH_TRUST is refused, and the hint is a command with an absolute path",
        arguments: [
            ("release.pub.pem", "\"$PWD/release.pub.pem\""), (".", "\"$PWD/.\""), ("/:keys", "\"/:$PWD/keys\""),
            ("~/keys", "\"$HOME/keys\"; the shell does not expand ~ inside quotes"), ("a$b", "\"$PWD/a\\$b\""),
        ])
    func relativeTrust(list: String, absolute: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        for command in [["verify", "fw.otaf"], ["push", "fw.otaf", "--device", "sim:"], ["inspect", "fw.otaf"]] {
            let run = try await sandbox.run(command + ["--format", "json"], env: ["OTAFLASH_TRUST": list])
            #expect(run.exit == 64, "\(run.out)")
            let error = try #require(try run.json().error)
            #expect(error.code?.string == "relative-trust-path")
            #expect(error.hint?.string == "export OTAFLASH_TRUST=\(absolute)")
        }
        // The option replaces the variable.
        let words = ["verify", "fw.otaf", "--trust", "release.pub.pem"]
        #expect(try await sandbox.run(words, env: ["OTAFLASH_TRUST": list]).exit == 0)
    }

    @Test(
        "a path in OTAFLASH_TRUST that resolves to the current directory through /proc is refused like a relative path")
    func trustThroughProc() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        for path in ["/proc/self/cwd", "/proc/self/cwd/release.pub.pem", "/dev/../proc/thread-self/cwd/"] {
            let run = try await sandbox.run("verify", "fw.otaf", "--format", "json", env: ["OTAFLASH_TRUST": path])
            #expect(run.exit == 64, "\(path): \(run.out)")
            let error = try #require(try run.json().error)
            #expect(error.code?.string == "relative-trust-path")
            #expect(error.hint?.string?.contains("realpath") == true)
        }
    }

    @Test("verify reads a bundle or a public key from a pipe")
    func readsFromPipes() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.shell(
            """
            set -e
            cat fw.otaf | "$0" verify /dev/stdin --trust release.pub.pem
            cat fw.otaf | "$0" verify /dev/fd/3 --trust release.pub.pem 3<&0 </dev/null
            cat release.pub.pem | "$0" verify fw.otaf --trust /dev/stdin
            """)
        #expect(run.exit == 0, "\(run.err)")
    }

    @Test("verify waits for the writer of a named pipe, and Ctrl-C ends the wait")
    func waitsForAWriter() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let words = ["verify", "fifo", "--trust", "release.pub.pem"]
        #expect(mkfifo(sandbox.path("fifo"), 0o600) == 0)
        let (status, screen) = try await sandbox.onTerminal(
            words + ["--verbose"], typing: [("versions: ", "\u{3}")])
        #expect(status == .signaled(SIGINT), "\(screen)")
        let late = try await sandbox.shell(
            "cat fw.otaf >fifo & exec \"$0\" \"$@\"", words[0], words[1], words[2], words[3])
        #expect(late.exit == 0, "\(late.err)")
    }

    @Test(
        "a trust folder in a folder that all users can write to is refused, from the default path, the variable and the option"
    )
    func trustFolderBelowWritable() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.makeFolder("home/.config/otaflash/trust")
        try sandbox.write("home/.config/otaflash/trust/release.pub.pem", sandbox.read("release.pub.pem"))
        let folder = sandbox.home.appending(".config/otaflash/trust").string
        let ways: [([String], [String: String])] = [
            ([], [:]), ([], ["OTAFLASH_TRUST": folder]), (["--trust", folder], [:]),
        ]
        for isWritable in [false, true] {
            chmod(sandbox.path("home/.config"), isWritable ? 0o777 : 0o755)
            for (options, env) in ways {
                let run = try await sandbox.run(["verify", "fw.otaf"] + options, env: env)
                #expect(run.exit == (isWritable ? 77 : 0), "\(run.err)")
                #expect(
                    !isWritable || run.err.contains("hint: chmod go-w \(sandbox.home.string)/.config\n"), "\(run.err)")
            }
        }
    }

    @Test("verify reports a trust path that does not exist, and a trust folder without keys")
    func aTrustedPathHasToBeThere() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "missing").exit == 66)
        #expect(try await sandbox.run("verify", "fw.otaf", env: ["OTAFLASH_TRUST": "/missing"]).exit == 66)
        try sandbox.makeFolder("empty")
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "empty").exit == 77)
    }

    @Test(
        "verify warns of a file in the trust folder that is not an Ed25519 key, and uses the other keys; alone it is an error"
    )
    func aFileThatIsNoKeyIsNamed() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.makeFolder("trust")
        try sandbox.write("trust/a.pub.pem", sandbox.read("release.pub.pem"))
        try await sandbox.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", "rsa.pem")
        try await sandbox.openssl("pkey", "-in", "rsa.pem", "-pubout", "-out", "trust/rsa.pub.pem")
        let run = try await sandbox.run("verify", "fw.otaf", "--trust", "trust", "--format", "json")
        #expect(run.exit == 0, "\(run.err)")
        #expect(run.err.contains("warning: a key is not trusted: trust/rsa.pub.pem: "), "\(run.err)")
        #expect(try run.json().warnings?.array?.count == 1)
        for words in [["--trust", "trust/rsa.pub.pem"], ["--trust", "only"]] {
            _ = try await sandbox.shell("mkdir -p only; cp trust/rsa.pub.pem only")
            let alone = try await sandbox.run(["verify", "fw.otaf", "--format", "json"] + words)
            #expect(try alone.exit == 65 && alone.json().error?.code?.string == "wrong-algorithm", "\(alone.out)")
        }
    }

    @Test(
        "verify refuses a trust folder or key file that all users can write to, with a chmod hint",
        arguments: ["trust", "trust/release.pub.pem"])
    func whatAnybodyMayWriteToIsNoTrust(open: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.makeFolder("trust")
        try sandbox.write("trust/release.pub.pem", sandbox.read("release.pub.pem"))
        chmod(sandbox.path(open), 0o777)
        let run = try await sandbox.run("verify", "fw.otaf", "--trust", "trust", "--format", "json")
        #expect(run.exit == 77)
        #expect(try run.json().error?.hint?.string == "chmod go-w \(sandbox.path(open))")
    }

    /// A hint to change the permissions of a device file would be harmful.
    @Test(
        "a device file given as a key is refused as not-a-file, without a chmod hint",
        arguments: ["/dev/null", "/dev/zero"])
    func aDeviceIsNoKey(path: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        for words in [["verify", "fw.otaf", "--trust", path], ["sign", "fw.otaf", "--key", path, "-o", "x.otaf"]] {
            let run = try await sandbox.run(words + ["--format", "json"])
            #expect(run.exit == 66)
            let error = try #require(try run.json().error)
            #expect(error.code?.string == "not-a-file" && error.hint?.string?.contains("chmod") == false)
        }
    }

    @Test("verify accepts a bundle signed by the demo key only with --allow-demo-key")
    func theDemoKeyHasToBeAllowed() async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", [1, 2, 3])
        try sandbox.takeDemoKey()
        try await sandbox.run(
            "sign", "fw.bin", "--key", "demo.pem", "--product", "demo", "--version", "1.0.0", "-o", "fw.otaf")
        let run = try await sandbox.run("verify", "fw.otaf", "--trust", "demo.pub.pem", "--format", "json")
        #expect(run.exit == 77)
        #expect(try run.json().error?.code?.string == "demo-key")
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "demo.pub.pem", "--allow-demo-key").exit == 0)
    }
}

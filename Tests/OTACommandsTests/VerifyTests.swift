import Glibc
import Subprocess
import SystemPackage
import Testing

@Suite struct VerifyTests {
    @Test func answersInJSON() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.run("verify", "fw.otaf", "--trust", "release.pub.pem", "--format", "json")
        #expect(run.exit == 0 && run.err.isEmpty)
        let json = try run.json()
        #expect(json.members == ["bundle", "command", "exit", "ok", "schema"] && !json.holdsNull)
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

    @Test(arguments: demands)
    func holdsTheBundleAgainstWhatIsAsked(options: [String], exit: Int32) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release("--hardware", "1..3", "--counter", "4")
        let run = try await sandbox.run(["verify", "fw.otaf", "--trust", "release.pub.pem"] + options)
        #expect(run.exit == exit, "\(run.err)")
    }

    @Test func refusesWhatWasChanged() async throws {
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
        "a key outside of its scope counts as not trusted by verify, push and inspect, and the message names the scope file"
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
        // The user's own limit holds for --unverified-image as well.
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

    @Test func refusesWhoIsNotTrusted() async throws {
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
        #expect(run.err.hasPrefix("otaflash: error: ") && run.err.contains("\notaflash: hint: "))
    }

    /// The line to type asks for no less.
    @Test func whatIsToBeTypedKeepsTheDemands() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.run("keygen", "other")
        let run = try await sandbox.run(
            "verify", "fw.otaf", "--trust", "other.pub.pem", "--product", "demo", "--hardware", "2", "--counter", "0",
            "--allow-demo-key", "--format", "json")
        let demands = "--product demo --hardware 2 --counter 0 --allow-demo-key --trust KEY.pub.pem"
        #expect(try run.json().error?.hint?.string?.hasSuffix("--trust other.pub.pem \(demands)") == true, "\(run.out)")
    }

    // MARK: Where trust comes from

    @Test func trustIsFound() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let trust = sandbox.home.appending(".config/otaflash/trust")
        try sandbox.makeFolder("home/.config/otaflash/trust")
        try sandbox.write("home/.config/otaflash/trust/release.pub.pem", sandbox.read("release.pub.pem"))
        // Only *.pub.pem count.
        try sandbox.write("home/.config/otaflash/trust/notes.txt", [1])
        #expect(try await sandbox.run("verify", "fw.otaf").exit == 0)
        #expect(try await sandbox.run("verify", "fw.otaf", env: ["XDG_CONFIG_HOME": "/nowhere"]).exit == 77)
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", trust.string).exit == 0)

        // A variable takes the folder's place, and an option the variable's.
        try await sandbox.run("keygen", "other")
        #expect(
            try await sandbox.run("verify", "fw.otaf", env: ["OTAFLASH_TRUST": sandbox.path("other.pub.pem")]).exit
                == 77)
        let both = ["OTAFLASH_TRUST": "\(sandbox.path("other.pub.pem")):\(sandbox.path("release.pub.pem"))"]
        #expect(try await sandbox.run("verify", "fw.otaf", env: both).exit == 0)
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "other.pub.pem", env: both).exit == 77)
    }

    /// Whoever sends an archive must not choose whom it is verified against.
    @Test func theCurrentFolderIsNoTrust() async throws {
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
            #expect(error.hint?.string?.contains("mkdir -p") == true && error.hint?.string?.contains("cp ") == true)
        }
    }

    @Test(
        "a relative path in OTAFLASH_TRUST is refused, and a hint says what to type",
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
        // The option takes the variable's place.
        let words = ["verify", "fw.otaf", "--trust", "release.pub.pem"]
        #expect(try await sandbox.run(words, env: ["OTAFLASH_TRUST": list]).exit == 0)
    }

    @Test("a path in OTAFLASH_TRUST that leads to the current directory through /proc is refused as a relative one is")
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

    @Test("verify reads a bundle from a pipe, and a public key too")
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

    @Test("verify waits for the writer of a named pipe, and Ctrl-C ends it")
    func waitsForAWriter() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let words = ["verify", "fifo", "--trust", "release.pub.pem"]
        #expect(mkfifo(sandbox.path("fifo"), 0o600) == 0)
        let (status, screen) = try await sandbox.onTerminal(
            words + ["--verbose"], typing: [(", verify", "\u{3}")])
        #expect(status == .signaled(SIGINT), "\(screen)")
        let late = try await sandbox.shell(
            "cat fw.otaf >fifo & exec \"$0\" \"$@\"", words[0], words[1], words[2], words[3])
        #expect(late.exit == 0, "\(late.err)")
    }

    @Test(
        "a trust folder below a folder that everybody can write to is refused, in the default place, the variable and the option"
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

    @Test func aTrustedPathHasToBeThere() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "missing").exit == 66)
        #expect(try await sandbox.run("verify", "fw.otaf", env: ["OTAFLASH_TRUST": "/missing"]).exit == 66)
        try sandbox.makeFolder("empty")
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "empty").exit == 77)
    }

    @Test func aFileThatIsNoKeyIsNamed() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.makeFolder("trust")
        try sandbox.write("trust/a.pub.pem", sandbox.read("release.pub.pem"))
        try await sandbox.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024", "-out", "rsa.pem")
        try await sandbox.openssl("pkey", "-in", "rsa.pem", "-pubout", "-out", "trust/rsa.pub.pem")
        let run = try await sandbox.run("verify", "fw.otaf", "--trust", "trust", "--format", "json")
        #expect(run.exit == 65)
        #expect(try run.json().error?.code?.string == "wrong-algorithm")
        #expect(run.err.contains("trust/rsa.pub.pem"))
    }

    @Test(arguments: ["trust", "trust/release.pub.pem"])
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

    /// To make them less open would be bad advice.
    @Test(arguments: ["/dev/null", "/dev/zero"])
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

    @Test func theDemoKeyHasToBeAllowed() async throws {
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

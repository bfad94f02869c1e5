import Glibc
import OTAFirmware
import Subprocess
import SystemPackage
import Testing

@Suite("Command sign") struct SignTests {
    @Test("openssl alone verifies the signature of a bundle with the commands of docs/bundle-format.md")
    func opensslHoldsTheSignatureForGood() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let bundle = try sandbox.read("fw.otaf")
        let length = Int(bundle[6]) | Int(bundle[7]) << 8
        try sandbox.write("m", Array(bundle[..<length]))
        try sandbox.write("s", Array(bundle[(length + 16)...].prefix(64)))
        try await sandbox.openssl(
            "pkeyutl", "-verify", "-pubin", "-inkey", "release.pub.pem", "-rawin", "-in", "m", "-sigfile", "s")
        #expect(Array(bundle.suffix(20_000)) == Sandbox.image(20_000))
    }

    @Test("sign --format json returns every field of the new bundle")
    func answersInJSON() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.2.0-rc.1", "--hardware",
            "1..3,7",
            "--counter", "5", "--requires", "1.0.0", "--minimum-battery", "30", "--source", "abc", "--format", "json",
            env: ["SOURCE_DATE_EPOCH": "1767225600"])
        #expect(run.exit == 0, "\(run.err)")
        let json = try run.json()
        #expect(json.members == ["bundle", "command", "exit", "ok", "output", "schema"])
        #expect(json.schema?.number == 1 && json.command?.string == "sign" && json.ok?.bool == true)
        #expect(json.output?.string == "fw.bin.otaf")
        let bundle = try #require(json.bundle)
        #expect(bundle.product?.string == "demo" && bundle.version?.string == "1.2.0-rc.1")
        #expect(bundle.hardware == .array([.array([.number(1), .number(3)]), .array([.number(7), .number(7)])]))
        #expect(bundle.security_counter?.number == 5 && bundle.image_size?.number == 20_000)
        #expect(bundle.image_format?.string == "raw" && bundle.created?.string == "2026-01-01T00:00:00Z")
        #expect(bundle.requires?.string == "1.0.0" && bundle.minimum_battery?.number == 30)
        #expect(bundle.source?.string == "abc")
        #expect(bundle.image_sha256?.string?.count == 64 && bundle.manifest_sha256?.string?.count == 64)
        let signature = try #require(bundle.signatures?[0])
        #expect(
            signature.members == ["algorithm", "key_id"], "not verified, so the JSON has neither trusted nor valid")
    }

    @Test("two runs of sign on the same input write the same bytes")
    func isReproducible() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(as: "one.otaf")
        try await sandbox.release(as: "two.otaf")
        #expect(try sandbox.read("one.otaf") == sandbox.read("two.otaf"))
    }

    @Test(
        "a malformed SOURCE_DATE_EPOCH is refused with 64 and no bundle is written",
        arguments: ["", "now", "-1", "+1", "1.5", " 1", "253402300800", "99999999999999999999"])
    func refusesAnEpochThatIsNone(epoch: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0",
            env: ["SOURCE_DATE_EPOCH": epoch])
        #expect(run.exit == 64)
        #expect(!sandbox.exists("fw.bin.otaf"))
    }

    @Test("sign replaces an existing output file only with --force")
    func replacesNothingWithoutForce() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.write("there", [1])
        let words = [
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "-o", "there",
        ]
        let run = try await sandbox.run(words)
        #expect(run.exit == 73)
        #expect(run.err.contains("--force"))
        #expect(try sandbox.read("there") == [1])
        #expect(try await sandbox.run(words + ["--force"]).exit == 0)
        #expect(try sandbox.read("there").count > 20_000)
    }

    @Test("sign --force does not replace the image that it signs", arguments: ["fw.bin", "./link"])
    func doesNotReplaceTheImage(output: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        _ = try await sandbox.shell("ln -s fw.bin link")
        let image = try sandbox.read("fw.bin")
        let run = try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "--force", "-o", output
        )
        #expect(run.exit == 73 && run.err.contains("is the image itself"), "\(run.err)")
        #expect(try sandbox.read("fw.bin") == image)
    }

    @Test(
        "sign refuses an invalid option or value with 64 and writes no bundle",
        arguments: [
            ["--product", "two words"], ["--product", ""], ["--version", "1"], ["--version", "1.0.0.0"],
            ["--hardware", "3..1"], ["--hardware", "x"], ["--counter", "-1"], ["--counter", "4294967296"],
            ["--requires", "1.2"], ["--minimum-battery", "101"], ["--source", ""], ["--source", "a\u{7}b"],
            ["--source", "a\nb"], ["--source", "a\r\nb"], ["--source", "\u{85}"],
            ["--source", String(repeating: "x", count: 128)], ["--frobnicate"], ["--key"], ["stray"],
        ])
    func refusesOptionsThatCannotBeMeant(options: [String]) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.run(["sign", "fw.bin", "--key", "release.pem", "--format", "json"] + options)
        #expect(run.exit == 64)
        #expect(try run.json().error?.code?.string == "usage")
        #expect(!sandbox.exists("fw.bin.otaf"))
    }

    @Test("sign names --product or --version when neither the image nor an option gives the value")
    func saysWhatTheImageDoesNot() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let product = try await sandbox.run("sign", "fw.bin", "--key", "release.pem", "--version", "1.0.0")
        #expect(product.exit == 64 && product.err.contains("--product"))
        let version = try await sandbox.run("sign", "fw.bin", "--key", "release.pem", "--product", "demo")
        #expect(version.exit == 64 && version.err.contains("--version"))
    }

    @Test("sign reads product, version and format from an ESP-IDF image")
    func takesFromTheImageWhatItSays() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let image = Sandbox.sample("acme-thermostat-1.1.0.bin")
        let run = try await sandbox.run("sign", image, "--key", "release.pem", "-o", "t.otaf", "--format", "json")
        let bundle = try #require(try run.json().bundle)
        #expect(bundle.product?.string == "acme-thermostat" && bundle.version?.string == "1.1.0")
        #expect(bundle.image_format?.string == "esp-idf")
    }

    @Test(
        "sign refuses a --product or --version that differs from the value in the image",
        arguments: [["--product", "acme-kettle"], ["--version", "1.1.1"]])
    func refusesToContradictTheImage(options: [String]) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let image = Sandbox.sample("acme-thermostat-1.1.0.bin")
        let run = try await sandbox.run(["sign", image, "--key", "release.pem", "-o", "t.otaf"] + options)
        #expect(run.exit == 65)
        #expect(!sandbox.exists("t.otaf"))
    }

    @Test("sign adds one signature per key to a bundle and leaves the image unchanged")
    func addsASignatureToABundle() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let before = try sandbox.read("fw.otaf")
        try await sandbox.run("keygen", "second")
        let run = try await sandbox.run("sign", "fw.otaf", "--key", "second.pem", "-o", "both.otaf", "--format", "json")
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().bundle?.signatures?.array?.count == 2)
        let after = try sandbox.read("both.otaf")
        #expect(after.count == before.count + 76 && after.suffix(20_000) == before.suffix(20_000))
        for key in ["release.pub.pem", "second.pub.pem"] {
            #expect(try await sandbox.run("verify", "both.otaf", "--trust", key).exit == 0)
        }
        let again = try await sandbox.run("sign", "both.otaf", "--key", "second.pem", "--force", "--format", "json")
        #expect(again.exit == 64)
        #expect(try again.json().error?.code?.string == "already-signed")
        #expect(try again.json().error?.hint?.string?.hasSuffix("otaflash inspect both.otaf") == true)
        let more = try await sandbox.run("sign", "fw.otaf", "--key", "second.pem", "--product", "demo", "-o", "x.otaf")
        #expect(more.exit == 64)
    }

    @Test("sign accepts eight keys and refuses a ninth with too-many-signatures")
    func takesUpToEightKeys() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        var words = [
            "sign", "fw.bin", "--product", "demo", "--version", "1.0.0", "-o", "eight.otaf", "--format", "json",
        ]
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            try await sandbox.run("keygen", name)
            words += ["--key", "\(name).pem"]
        }
        #expect(try await sandbox.run(words).json().bundle?.signatures?.array?.count == 8)
        let nine = try await sandbox.run(words + ["--key", "release.pem", "--force"])
        #expect(nine.exit == 77)
        #expect(try nine.json().error?.code?.string == "too-many-signatures")
    }

    @Test("sign refuses the same key twice, also as a copy in another file")
    func takesAKeyOnce() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try sandbox.write("copy.pem", sandbox.read("release.pem"))
        chmod(sandbox.path("copy.pem"), 0o600)
        for second in ["release.pem", "copy.pem"] {
            let run = try await sandbox.run(
                "sign", "fw.bin", "--key", "release.pem", "--key", second, "--product", "demo", "--version", "1.0.0",
                "--format", "json")
            #expect(run.exit == 64)
            let error = try #require(try run.json().error)
            #expect(error.code?.string == "already-signed" && error.message?.string?.contains("given twice") == true)
            #expect(error.hint?.string == "give --key once for each key")
        }
        #expect(!sandbox.exists("fw.bin.otaf"))
    }

    @Test("sign refuses a public key and names the private key to use", arguments: [0o644, 0o600] as [mode_t])
    func aPublicKeyIsNotWhatSigns(mode: mode_t) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        for (name, other) in [("release.pub.pem", "release.pem"), ("key", "NAME.pem")] {
            try sandbox.write(name, sandbox.read("release.pub.pem"))
            chmod(sandbox.path(name), mode)
            let run = try await sandbox.run(
                "sign", "fw.bin", "--key", name, "--product", "demo", "--version", "1.0.0", "--format", "json")
            #expect(run.exit == 65)
            let error = try #require(try run.json().error)
            #expect(error.code?.string == "not-a-key")
            #expect(error.message?.string?.contains("\(name): this is a public key") == true)
            #expect(error.hint?.string?.hasSuffix("the same pair: \(other)") == true)
        }
    }

    @Test("a key from standard input and an environment variable without a name are refused with exit 64")
    func noKeyFromStandardInput() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        for key in ["-", "env:"] {
            let run = try await sandbox.run(
                "sign", "fw.bin", "--key", key, "--product", "demo", "--version", "1.0.0", "-o", "x")
            #expect(run.exit == 64 && run.err.contains("--key env:NAME"), "\(run.err)")
        }
        let verify = try await sandbox.run("verify", "fw.otaf", "--trust", "-")
        #expect(verify.exit == 64 && verify.err.contains("--trust KEY.pub.pem"), "\(verify.err)")
    }

    @Test("sign reads a private key from an environment variable with --key env:NAME")
    func takesAKeyFromAVariable() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let words = ["sign", "fw.bin", "--key", "env:SIGNING_KEY", "--product", "demo", "--version", "1.0.0"]
        let pem = String(decoding: try sandbox.read("release.pem"), as: UTF8.self)
        #expect(try await sandbox.run(words).exit == 66)
        #expect(try await sandbox.run(words, env: ["SIGNING_KEY": "no key"]).exit == 65)
        #expect(try await sandbox.run(words, env: ["SIGNING_KEY": pem]).exit == 0)
        #expect(try await sandbox.run("verify", "fw.bin.otaf", "--trust", "release.pub.pem").exit == 0)
    }

    @Test("sign refuses a key file that other users can read, with a chmod hint")
    func refusesAKeyThatOthersCanRead() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        chmod(sandbox.path("release.pem"), 0o644)
        let run = try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "--format", "json")
        #expect(run.exit == 77)
        #expect(try run.json().error?.hint?.string == "chmod 600 release.pem")
    }

    @Test("sign opens an encrypted key with a passphrase from a file descriptor, a variable or the terminal")
    func opensAnEncryptedKey() async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", [1, 2, 3])
        try sandbox.write("secret", Array("correct horse".utf8))
        #expect(try await sandbox.shell("exec \"$0\" keygen release --passphrase-fd 9 9<secret").exit == 0)
        let words = ["sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "--force"]

        let none = try await sandbox.run(words + ["--format", "json"])
        #expect(none.exit == 77)
        #expect(try none.json().error?.code?.string == "passphrase-required")
        let wrong = try await sandbox.run(words + ["--passphrase-env", "P", "--format", "json"], env: ["P": "wrong"])
        #expect(wrong.exit == 77)
        #expect(try wrong.json().error?.code?.string == "wrong-passphrase")
        let right = try await sandbox.run(words + ["--passphrase-env", "P"], env: ["P": "correct horse"])
        #expect(right.exit == 0, "\(right.err)")
        #expect(
            try await sandbox.run(words + ["--passphrase-fd", "0"], input: Array("correct horse\n".utf8)).exit == 0)
        #expect(try await sandbox.run(words + ["--passphrase-fd", "42"]).exit == 77)
        let typed = try await sandbox.onTerminal(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "--force",
            typing: [("release.pem: ", "correct horse\n")])
        #expect(typed.status == .exited(0), "\(typed.screen)")
        let both = try await sandbox.run(words + ["--passphrase-fd", "0", "--passphrase-env", "P"])
        #expect(both.exit == 64)
    }

    @Test("sign warns when the security counter is more than 1000 above the counter of the replaced bundle, or above 0")
    func warnsOfACounterJump() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        func sign(_ counter: String, _ more: String...) async throws -> String {
            let run = try await sandbox.run(
                [
                    "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "--counter",
                    counter,
                ]
                    + ["-o", "new.otaf"] + more)
            #expect(run.exit == 0, "\(run.err)")
            return run.err
        }
        #expect(try await sign("5000").contains("5000 higher than 0 (no earlier bundle at the output path)."))
        _ = try await sandbox.shell("rm new.otaf")
        #expect(try await sign("1000") == "")
        #expect(try await sign("2000", "--force") == "")
        let jump = try await sign("3001", "--force")
        #expect(
            jump.contains(
                "otaflash: warning: the security counter 3001 is 1001 higher than 2000 (that of the earlier bundle)."))
        #expect(jump.contains("\notaflash: hint: increase the counter by 1"))
        #expect(try await sign("4294967295", "--force", "--progress", "json").contains("4294964294 higher than 3001"))
    }

    @Test(
        "sign --force does not replace a bundle of the product that has a higher version or a higher security counter")
    func newerOutput() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(version: "1.4.0", "--counter", "7")
        let before = try sandbox.read("fw.otaf")
        func sign(_ version: String, _ more: String..., product: String = "demo") async throws -> Run {
            let words = [
                "sign", "fw.bin", "--key", "release.pem", "--product", product, "--version", version, "--force",
            ]
            return try await sandbox.run(words + ["-o", "fw.otaf", "--format", "json"] + more)
        }
        let lower = try await sign("1.5.0")
        let error = try lower.json().error
        #expect(lower.exit == 73 && error?.code?.string == "output-exists", "\(lower.out)")
        let text =
            "fw.otaf has the version 1.4.0 and the security counter 7, and the new bundle would have the version 1.5.0 and "
        #expect(error?.message?.string?.hasPrefix(text + "the security counter 0") == true, "\(lower.out)")
        #expect(
            error?.hint?.string?.contains("give --counter 7; or remove the file: rm fw.otaf") == true, "\(lower.out)")
        #expect(try await sign("1.3.9", "--counter", "8").exit == 73)
        try await sandbox.release(version: "1.0.0", as: "first.otaf")
        #expect(try await sign("1.3.9", "--previous", "first.otaf").exit == 73)
        let manifest = ["sign", "fw.bin", "--product", "demo", "--version", "1.5.0", "--to-sign"]
        #expect(try await sandbox.run(manifest + ["fw.otaf", "--force"]).exit == 73)
        #expect(try await sandbox.run(manifest + ["m"]).exit == 0)
        #expect(try await sandbox.run("sign", "m", "--key", "release.pem", "-o", "fw.otaf", "--force").exit == 73)
        #expect(try sandbox.read("fw.otaf") == before)
        #expect(try await sign("1.4.0", "--counter", "7").exit == 0, "the same release again")
        #expect(try await sign("1.0.0", product: "other").exit == 0, "another product")
    }

    @Test("sign --previous takes the security counter, and refuses an image that cannot follow the previous release")
    func previous() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(version: "1.4.0", as: "old.otaf", "--counter", "7")
        func sign(_ version: String, _ more: String..., product: String = "demo") async throws -> Run {
            let words = [
                "sign", "fw.bin", "--key", "release.pem", "--product", product, "--version", version, "--previous",
            ]
            return try await sandbox.run(words + ["old.otaf", "-o", "new.otaf", "--format", "json"] + more)
        }
        for (run, code) in [
            (try await sign("1.4.0"), "version-not-raised"), (try await sign("1.3.9"), "version-not-raised"),
            (try await sign("1.5.0", "--counter", "6"), "counter-lowered"),
            (try await sign("1.5.0", product: "other"), "wrong-product"),
            (try await sign("1.5.0", "--requires", "1.4.1"), "requires-newer"),
        ] {
            #expect(try run.exit == 77 && run.json().error?.code?.string == code, "\(run.out)")
        }
        #expect(!sandbox.exists("new.otaf"))
        #expect(try await sandbox.run("keygen", "foreign").exit == 0)
        let forged = [
            "sign", "fw.bin", "--key", "foreign.pem", "--product", "demo", "--version", "1.0.0", "--counter",
            "4294967295", "-o", "forged.otaf",
        ]
        #expect(try await sandbox.run(forged).exit == 0)
        let victim = try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.5.0", "--previous",
            "forged.otaf", "-o", "victim.otaf")
        #expect(victim.exit == 64 && victim.err.contains("its security counter is not taken"), "\(victim.err)")
        try await sandbox.release(version: "1.6.0", as: "one.otaf", "--counter", "7")
        let second = try await sandbox.run(
            "sign", "one.otaf", "--key", "foreign.pem", "--previous", "old.otaf", "-o", "both.otaf")
        #expect(second.exit == 0, "a second signature takes no counter: \(second.err)")
        let taken = try await sign("1.5.0")
        #expect(try taken.exit == 0 && taken.json().bundle?.security_counter?.number == 7, "\(taken.out)")
        let raised = try await sign("1.5.0", "--counter", "8", "--force")
        #expect(try raised.json().bundle?.security_counter?.number == 8, "\(raised.out)")
        let image = try await sandbox.run(
            "sign", "fw.bin", "--as", "mcuboot", "--key", "release.pem", "--version", "1.5.0", "--header-size", "0x20",
            "--pad-header", "--previous", "old.otaf")
        #expect(image.exit == 64 && image.err.contains("--previous is for bundles"), "\(image.err)")
        let manifest = try await sandbox.run(
            "sign", "fw.bin", "--to-sign", "m", "--product", "demo", "--version", "1.4.0", "--previous", "old.otaf")
        #expect(manifest.exit == 77, "\(manifest.err)")
    }

    @Test(
        "sign warns of a high security counter in a bundle that it adds a signature to, unless the output already has that counter"
    )
    func warnsOfACounterJumpInABundle() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(as: "vendor.otaf", "--counter", "4294967295")
        #expect(try await sandbox.run("keygen", "second").exit == 0)
        let words = ["sign", "vendor.otaf", "--key", "second.pem"]
        let added = try await sandbox.run(words + ["-o", "both.otaf"])
        #expect(added.exit == 0)
        #expect(added.err.contains("the security counter 4294967295 is 4294967295 higher than 0"), "\(added.err)")
        for options in [["-o", "both.otaf", "--force"], ["--force"]] {
            let again = try await sandbox.run(words + options)
            #expect(again.exit == 0 && again.err == "", "\(again.err)")
        }
    }

    @Test("sign --as mcuboot warns of a --security-counter more than 1000 above that of the replaced image, or above 0")
    func warnsOfACounterJumpInAnImage() async throws {
        let sandbox = try Sandbox()
        #expect(try await sandbox.run("keygen", "release").exit == 0)
        try sandbox.write("fw.bin", Sandbox.image(20_000))
        func sign(_ counter: String) async throws -> String {
            let run = try await sandbox.run(
                "sign", "fw.bin", "--as", "mcuboot", "--header-size", "32", "--pad-header", "--version", "1.0.0",
                "--key",
                "release.pem", "--force", "--security-counter", counter)
            #expect(run.exit == 0, "\(run.err)")
            return run.err
        }
        let jump = try await sign("4294967295")
        #expect(jump.contains("otaflash: warning: the security counter 4294967295 is 4294967295 higher than 0"))
        #expect(jump.contains("this image") && jump.contains("a lower --security-counter"))
        #expect(try await sign("4294967295") == "")
        #expect(try await sign("1000") == "")
        #expect(try await sign("2001").contains("1001 higher than 1000"))
        #expect(try await sign("auto") == "")
    }

    @Test("sign warns about the demo key even with --quiet")
    func warnsOfTheDemoKey() async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", [1, 2, 3])
        try sandbox.takeDemoKey()
        let run = try await sandbox.run(
            "sign", "fw.bin", "--key", "demo.pem", "--product", "demo", "--version", "1.0.0", "--quiet")
        #expect(run.exit == 0)
        #expect(run.err.contains("otaflash: warning: this is the demo key"))
    }

    @Test("sign leaves no partial bundle or temporary file when SIGINT interrupts it")
    func leavesNothingBehindWhenInterrupted() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(truncate(sandbox.path("fw.bin"), 3 << 30) == 0)
        let before = try sandbox.names()
        let result = try await Subprocess.run(
            .path(Sandbox.binary),
            arguments: ["sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.0.0"],
            environment: sandbox.environment(), workingDirectory: sandbox.folder, input: .none, output: .discarded,
            error: .discarded
        ) { execution in
            try await Task.sleep(for: .milliseconds(150))
            try execution.send(signal: .interrupt)
        }
        #expect(result.terminationStatus == .signaled(SIGINT))
        #expect(try sandbox.names() == before)
    }

    @Test("sign --force does not replace a key", arguments: ["release.pem", "release.pub.pem"])
    func doesNotReplaceAKey(name: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let before = try sandbox.read(name)
        let run = try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.2.0", "-o", name, "--force")
        #expect(run.exit == 73 && run.err.contains("\(name) is a key or a certificate"), "\(run.err)")
        #expect(try sandbox.read(name) == before)
    }
}

import OTAFirmware
import OTATestSupport
import Subprocess
import SystemPackage
import Testing

@Suite("Signing with keys in PKCS#11 tokens") struct TokenTests {
    private static let sign = ["sign", "fw.bin", "--product", "demo", "--version", "1.1.0", "-o", "out.otaf"]

    /// Returns a sandbox with the token `release`, the key `fw` of RFC 8032 in it, and the image `fw.bin`.
    private func sandbox() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.makeToken()
        try await sandbox.writeRFC8032Key()
        try await sandbox.importKey("rfc8032.pem")
        try sandbox.write("fw.bin", (0..<600).map { UInt8($0 % 251) })
        return sandbox
    }

    private func sign(
        _ sandbox: Sandbox, _ key: String = "pkcs11:object=fw", _ options: String..., env: [String: String] = [:]
    ) async throws -> Run {
        try await sandbox.run(
            Self.sign + ["--key", key, "--format", "json"] + (options.isEmpty ? ["--pin-env", "PIN"] : options),
            env: sandbox.tokens().merging(env) { $1 })
    }

    private func expect(_ run: Run, _ code: String, _ exit: Int32, _ message: String, sandbox: Sandbox) throws {
        #expect(run.exit == exit, "\(run.out)\(run.err)")
        let error = try #require(try run.json().error)
        #expect(error.code?.string == code)
        #expect(error.message?.string?.contains(message) == true, "\(error.message?.string ?? "")")
        #expect(error.hint?.string?.isEmpty == false)
        #expect(!sandbox.exists("out.otaf"))
    }

    // MARK: Bundles and images

    @Test(
        "a token with the key of RFC 8032 signs the bundle of docs/bundle-format.md to the byte",
        arguments: [Sandbox.softHSM, nil])
    func signsThePublishedBundle(module: String?) async throws {
        let sandbox = try await sandbox()
        let run = try await sandbox.run(
            Self.sign + [
                "--hardware", "1..3", "--counter", "7", "--key", "pkcs11:token=release;object=fw", "--pin-env", "PIN",
            ], env: sandbox.tokens(module: module).merging(["SOURCE_DATE_EPOCH": "1767225600"]) { $1 })
        #expect(run.exit == 0, "\(run.err)")
        let page = try String(
            decoding: sandbox.read(FilePath(Sandbox.repository("docs/bundle-format.md"))), as: UTF8.self)
        let dump = page.split(separator: "\n").filter { $0.hasPrefix("    00") }.flatMap {
            $0.split(separator: " ").dropFirst()
        }
        let envelope = try #require(Hex.decode(dump.joined()))
        #expect(envelope.count == 169)
        #expect(try sandbox.read("out.otaf") == envelope + sandbox.read("fw.bin"))
    }

    @Test("a key pair from keygen --in signs, and openssl verifies the signature with its public key")
    func keygenInAToken() async throws {
        let sandbox = try await sandbox()
        let keygen = try await sandbox.run(
            "keygen", "new", "--in", "pkcs11:token=release;object=new", "--pin-env", "PIN", "--format", "json",
            env: sandbox.tokens())
        #expect(keygen.exit == 0, "\(keygen.err)")
        let key = try #require(try keygen.json().key)
        #expect(key.members == ["algorithm", "key_id", "location", "public"])
        let id = try #require(key.key_id?.string)
        let bytes = try #require(Hex.decode(id)).map { "%" + Hex.encode([$0]) }.joined()
        let location = try #require(key.location?.string)
        #expect(location.hasPrefix("pkcs11:token=release;serial=") && location.hasSuffix(";object=new;id=\(bytes)"))
        #expect(try !sandbox.names().contains("new.pem"))

        // The location is a value of --key.
        #expect(try await sign(sandbox, location).exit == 0)
        let bundle = try sandbox.read("out.otaf")
        let length = Int(bundle[6]) | Int(bundle[7]) << 8
        try sandbox.write("m", Array(bundle[..<length]))
        try sandbox.write("s", Array(bundle[(length + 16)...].prefix(64)))
        try await sandbox.openssl(
            "pkeyutl", "-verify", "-pubin", "-inkey", "new.pub.pem", "-rawin", "-in", "m", "-sigfile", "s")

        // OpenSC reads the attributes of the private key.
        let listed = try await Command.run(
            "pkcs11-tool",
            ["--module", Sandbox.softHSM, "--login", "--pin", Sandbox.pin, "-O", "--type", "privkey", "--id", id],
            environment: sandbox.environment(sandbox.tokens())
        ).outputText
        #expect(listed.contains("sensitive, always sensitive, never extractable, local"), "\(listed)")
        #expect(listed.contains("Usage:      sign\n"), "\(listed)")
    }

    @Test(
        "keygen --from writes the public key of an existing key",
        arguments: ["rfc8032.pem", "env:KEY", "pkcs11:token=release;id=%01", "exec:./kms"])
    func publicKeyOfAnExistingKey(key: String) async throws {
        let sandbox = try await sandbox()
        _ = try await sandbox.shell(
            "printf '#!/bin/sh\\n[ $1 = public-key ] && openssl pkey -in rfc8032.pem -pubout' >kms; chmod +x kms")
        let pem = try String(decoding: sandbox.read("rfc8032.pem"), as: UTF8.self)
        let run = try await sandbox.run(
            "keygen", "again", "--from", key, "--pin-env", "PIN", "--format", "json",
            env: sandbox.tokens().merging(["KEY": pem]) { $1 })
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().key?.key_id?.string == "21fe31dfa154a261")
        let location = try run.json().key?.location?.string
        #expect(key.hasPrefix("pkcs11:") ? location?.hasSuffix(";object=fw;id=%01") == true : location == key)
        let expected = try await sandbox.openssl("pkey", "-in", "rfc8032.pem", "-pubout")
        #expect(try sandbox.read("again.pub.pem") == expected)
        #expect(try !sandbox.names().contains("again.pem"))
    }

    @Test(
        "an MCUboot image from an Ed25519 key in a token equals the image from the key file",
        arguments: [[], ["--pure"], ["--sha", "512"]])
    func mcubootWithEd25519(options: [String]) async throws {
        let sandbox = try await sandbox()
        try sandbox.write("app.bin", [UInt8](repeating: 0, count: 512) + Sandbox.image(100_000))
        let words = ["sign", "--as", "mcuboot", "app.bin", "--version", "1.0.0", "--header-size", "0x200"] + options
        for (key, output) in [("pkcs11:object=fw", "token.bin"), ("rfc8032.pem", "file.bin")] {
            let run = try await sandbox.run(
                words + ["--key", key, "-o", output, "--pin-env", "PIN"], env: sandbox.tokens())
            #expect(run.exit == 0, "\(run.err)")
        }
        #expect(try sandbox.read("token.bin") == sandbox.read("file.bin"))
    }

    @Test("imgtool verifies the MCUboot image from an ECDSA P-256 key in a token")
    func mcubootWithECDSA() async throws {
        let sandbox = try await sandbox()
        try await sandbox.makeKey("--key-type", "EC:prime256v1", "--label", "boot", "--id", "22")
        try sandbox.write("app.bin", [UInt8](repeating: 0, count: 512) + Sandbox.image(20_000))
        let key = ["--pin-env", "PIN"]
        let words = [
            "sign", "--as", "mcuboot", "app.bin", "--version", "1.0.0", "--header-size", "0x200", "-o", "app.img",
        ]
        let signed = try await sandbox.run(words + ["--key", "pkcs11:object=boot"] + key, env: sandbox.tokens())
        #expect(signed.exit == 0, "\(signed.err)")
        let keygen = try await sandbox.run(
            ["keygen", "boot", "--from", "pkcs11:object=boot"] + key, env: sandbox.tokens())
        #expect(keygen.exit == 0, "\(keygen.err)")
        let imgtool = FilePath(PythonEnvironment.python).removingLastComponent().appending("imgtool").string
        let verified = try await Command.run(imgtool, ["verify", "-k", "boot.pub.pem", "app.img"], in: sandbox.folder)
        #expect(verified.succeeded && verified.outputText.contains("correctly validated"), "\(verified.outputText)")

        let run = try await sign(sandbox, "pkcs11:object=boot")
        try expect(run, "wrong-algorithm", 65, "is for ECDSA; expected Ed25519", sandbox: sandbox)
    }

    @Test(
        "two keys of one token sign one bundle after one login, and a second bundle signature comes from a second token"
    )
    func severalKeys() async throws {
        let sandbox = try await sandbox()
        try await sandbox.makeToken("second", pin: "another pin")
        try await sandbox.makeKey("--key-type", "EC:edwards25519", "--label", "two", "--id", "02")
        let other = try await sandbox.run(
            "keygen", "other", "--in", "pkcs11:token=second;object=fw", "--pin-env", "PIN",
            env: sandbox.tokens().merging(["PIN": "another pin"]) { $1 })
        #expect(other.exit == 0, "\(other.err)")
        try sandbox.write("pins", Array("\(Sandbox.pin)\nanother pin\n".utf8))
        let keys = ["pkcs11:token=release;object=fw", "pkcs11:token=release;object=two", "pkcs11:token=second"]
        let words = Self.sign + keys.flatMap { ["--key", $0] } + ["--format", "json"]
        let run = try await sandbox.shell(
            "exec \"$0\" \"$@\" --pin-fd 3 3<pins", arguments: words, env: sandbox.tokens())
        #expect(run.exit == 0, "\(run.err)\(run.out)")
        #expect(try run.json().bundle?.signatures?.array?.count == 3)

        let ambiguous = try await sandbox.run(
            Self.sign + ["--force", "--key", "pkcs11:object=fw", "--pin-env", "PIN"], env: sandbox.tokens())
        #expect(ambiguous.exit == 64 && ambiguous.err.contains("matches 2 tokens"), "\(ambiguous.err)")
        let oneVariable = try await sandbox.run(
            Self.sign + ["--force", "--key", keys[0], "--key", keys[2], "--pin-env", "PIN"], env: sandbox.tokens())
        #expect(oneVariable.exit == 77 && oneVariable.err.contains("--pin-env is for one token"), "\(oneVariable.err)")
    }

    // MARK: PINs

    @Test("the PIN comes from --pin-fd, --pin-env, or the file of pin-source", arguments: ["fd", "env", "source"])
    func sourcesOfThePIN(source: String) async throws {
        let sandbox = try await sandbox()
        try sandbox.write("pin", Array((Sandbox.pin + "\r\nsecond line").utf8))
        _ = try await sandbox.shell("chmod 600 pin")
        let uri = "pkcs11:object=fw" + (source == "source" ? "?pin-source=file:\(sandbox.path("pin"))" : "")
        let option = ["fd": "--pin-fd 3 3<pin", "env": "--pin-env PIN", "source": ""][source] ?? ""
        let run = try await sandbox.shell(
            "exec \"$0\" \"$@\" \(option)", arguments: Self.sign + ["--key", uri], env: sandbox.tokens())
        #expect(run.exit == 0, "\(run.err)")
    }

    @Test("sign asks for the PIN on a terminal without echo, and never a second time")
    func asksOnATerminal() async throws {
        let sandbox = try await sandbox()
        let words = Self.sign + ["--key", "pkcs11:object=fw", "--force"]
        let right = try await sandbox.onTerminal(
            words, env: sandbox.tokens(), typing: [("PIN of the token release: ", Sandbox.pin + "\n")])
        #expect(right.status == .exited(0) && !right.screen.contains("8841"), "\(right.screen)")
        let wrong = try await sandbox.onTerminal(
            words, env: sandbox.tokens(), typing: [("PIN of the token release: ", "1111\n")])
        #expect(wrong.status == .exited(77) && wrong.screen.contains("is wrong"), "\(wrong.screen)")
        #expect(wrong.screen.ranges(of: "PIN of the token release: ").count == 1, "\(wrong.screen)")
    }

    @Test("a missing, empty or unreadable PIN is refused before the token counts a try")
    func missingPIN() async throws {
        let sandbox = try await sandbox()
        try sandbox.write("open", Array(Sandbox.pin.utf8))
        _ = try await sandbox.shell("chmod 644 open")
        let none = try await sandbox.shell(
            "exec setsid --wait \"$0\" \"$@\"",
            arguments: Self.sign + ["--key", "pkcs11:object=fw", "--format", "json"],
            env: sandbox.tokens())
        try expect(none, "pin-needed", 77, "there is no terminal", sandbox: sandbox)
        try expect(try await sign(sandbox, env: ["PIN": ""]), "pin-needed", 77, "is empty", sandbox: sandbox)
        let unset = try await sign(sandbox, "pkcs11:object=fw", "--pin-env", "secret_8841")
        try expect(unset, "pin-needed", 77, "is not set", sandbox: sandbox)
        #expect(!unset.out.contains("8841"))
        let closed = try await sign(sandbox, "pkcs11:object=fw", "--pin-fd", "77")
        try expect(closed, "pin-needed", 77, "file descriptor 77", sandbox: sandbox)
        let open = try await sign(sandbox, "pkcs11:object=fw?pin-source=\(sandbox.path("open"))")
        try expect(open, "key-file-permissions", 77, "this PIN", sandbox: sandbox)
        let missing = try await sign(sandbox, "pkcs11:object=fw?pin-source=\(sandbox.path("missing"))")
        try expect(missing, "no-such-file", 66, "missing", sandbox: sandbox)
        // softhsm2 reports a wrong try in the flags of the token.
        let listed = try await Command.run(
            "pkcs11-tool", ["--module", Sandbox.softHSM, "--list-slots"],
            environment: sandbox.environment(sandbox.tokens()))
        #expect(listed.succeeded && !listed.outputText.contains("count low"), "\(listed.outputText)")
    }

    @Test(
        "an argument that may be a PIN is refused without its value in the message",
        arguments: [["--pin-env", "8841"], ["--pin-env", "88-41"], ["--pin-env", "PIN", "--pin-fd", "3"]])
    func argumentsOfThePIN(options: [String]) async throws {
        let run = try await Sandbox().run(Self.sign + ["--key", "pkcs11:object=fw"] + options)
        #expect(run.exit == 64 && !run.err.contains("41"), "\(run.err)")
    }

    // MARK: Failures

    @Test("each failure of a token has its code, its exit status and a hint")
    func failures() async throws {
        let sandbox = try await sandbox()
        try await sandbox.makeKey("--key-type", "rsa:2048", "--label", "rsa", "--id", "05")
        try await sandbox.makeKey("--key-type", "EC:edwards25519", "--label", "twin", "--id", "06")
        try await sandbox.makeKey("--key-type", "EC:edwards25519", "--label", "twin", "--id", "07")
        try await sandbox.makeKey("--key-type", "EC:edwards25519", "--label", "half", "--id", "08")
        try await sandbox.pkcs11Tool(["--delete-object", "--type", "pubkey", "--id", "08"])
        _ = try await sandbox.shell(
            "cp \"$(/sbin/ldconfig -p | sed -n 's/.*libz.so.1 .* => //p' | head -n 1)\" plain.so")
        for (key, code, exit, message) in [
            ("pkcs11:token=other", "no-such-token", 69, "no token \"other\"; there are: \"release\" (serial "),
            ("pkcs11:serial=0", "no-such-token", 69, "no token that matches the URI"),
            ("pkcs11:slot-id=3", "no-such-token", 69, "no token that matches the URI"),
            ("pkcs11:object=other", "no-such-key", 66, "has no private key \"other\"; it has: "),
            ("pkcs11:id=%02", "no-such-key", 66, "\"fw\" (id 01)"),
            ("pkcs11:object=half", "no-such-key", 66, "but not its public key"),
            ("pkcs11:object=twin", "ambiguous-key", 64, "matches 2 keys"),
            ("pkcs11:token=release", "ambiguous-key", 64, "keys of the token"),
            ("pkcs11:object=rsa", "wrong-algorithm", 65, "is for RSA; expected Ed25519"),
            ("pkcs11:object=a;object=b", "bad-key-uri", 64, "occurs twice"),
            (
                "pkcs11:object=fw?module-path=/nonexistent.so", "token-unavailable", 69,
                "/nonexistent.so: it cannot be loaded"
            ),
            (
                "pkcs11:object=fw?module-path=\(sandbox.path("plain.so"))", "token-unavailable", 69,
                "is not a PKCS#11 module"
            ),
            ("pkcs11:object=fw?module-path=libsofthsm2.so", "token-unavailable", 69, "is not absolute: libsofthsm2.so"),
            ("pkcs11:object=fw?module-path=\(sandbox.folder)", "token-unavailable", 69, "it is not a file"),
            ("pkcs11:object=fw?module-path=\(sandbox.path("fw.bin"))", "token-unavailable", 69, "cannot be loaded"),
        ] as [(String, String, Int32, String)] {
            try expect(try await sign(sandbox, key), code, exit, message, sandbox: sandbox)
        }
        // The hint has the URI of one of the keys, as a word for the shell.
        let twins = try await sign(sandbox, "pkcs11:object=twin").json().error?.hint?.string
        let hinted = try #require(twins?.split(separator: "'").last { $0.hasPrefix("pkcs11:") })
        #expect(try await sign(sandbox, String(hinted)).exit == 0)
        _ = try await sandbox.shell("rm out.otaf; mkfifo pipe.so")
        for path in ["./libsofthsm2.so", "libsofthsm2.so"] {
            let relative = try await sign(
                sandbox, env: ["OTAFLASH_PKCS11_MODULE": path, "LD_LIBRARY_PATH": "/usr/lib/softhsm"])
            try expect(relative, "token-unavailable", 69, "is not absolute: \(path)", sandbox: sandbox)
        }
        let pipe = try await sign(sandbox, "pkcs11:object=fw?module-path=\(sandbox.path("pipe.so"))")
        try expect(pipe, "token-unavailable", 69, "it is not a file", sandbox: sandbox)
        let wrong = try await sign(sandbox, env: ["PIN": "1111"])
        try expect(wrong, "wrong-pin", 77, "is wrong; the token reports: few tries are left", sandbox: sandbox)
        let short = try await sign(sandbox, env: ["PIN": "1"])
        try expect(short, "wrong-pin", 77, "is wrong", sandbox: sandbox)
        let broken = try await sign(sandbox, env: ["SOFTHSM2_CONF": "/nonexistent"])
        try expect(broken, "token-unavailable", 69, "C_Initialize: CKR_GENERAL_ERROR (0x5)", sandbox: sandbox)
    }

    @Test("a key that requires a login for each signature gets it")
    func alwaysAuthenticates() async throws {
        let sandbox = try await sandbox()
        try await sandbox.makeKey("--key-type", "EC:edwards25519", "--label", "strict", "--id", "0a", "--always-auth")
        let run = try await sign(sandbox, "pkcs11:object=strict")
        #expect(run.exit == 0, "\(run.out)")
    }

    @Test(
        "keygen --in refuses an existing label or file, and a URI without a label, and leaves no key in the token",
        arguments: [
            ("pkcs11:object=fw", "output-exists", 73), ("pkcs11:object=new;id=%01", "bad-key-uri", 64),
            ("pkcs11:token=release", "bad-key-uri", 64), ("release.pem", "usage", 64), ("exec:./kms", "usage", 64),
        ])
    func keygenRefuses(uri: String, code: String, exit: Int32) async throws {
        let sandbox = try await sandbox()
        let run = try await sandbox.run(
            "keygen", "new", "--in", uri, "--pin-env", "PIN", "--format", "json", env: sandbox.tokens())
        try expect(run, code, exit, "", sandbox: sandbox)
        try sandbox.write("there.pub.pem", [1])
        let existing = try await sandbox.run(
            "keygen", "there", "--in", "pkcs11:object=new", "--pin-env", "PIN", env: sandbox.tokens())
        #expect(existing.exit == 73, "\(existing.err)")
        let folder = try await sandbox.run(
            "keygen", "missing/new", "--in", "pkcs11:object=new", "--pin-env", "PIN", env: sandbox.tokens())
        #expect(folder.exit == 73, "\(folder.err)")
        try expect(
            try await sign(sandbox, "pkcs11:object=new"), "no-such-key", 66, "it has: \"fw\" (id 01)", sandbox: sandbox)
        #expect(try !sandbox.names().contains { $0.hasPrefix("new.") })
    }

    @Test(
        "options of keygen that contradict each other are a usage error",
        arguments: [
            ["--in", "pkcs11:object=a", "--from", "pkcs11:object=b"], ["--in", "pkcs11:object=a", "--encrypt"],
            ["--from", "release.pem", "--encrypt"], ["--pin-env", "PIN"],
        ])
    func keygenOptions(options: [String]) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run(["keygen", "new"] + options)
        #expect(run.exit == 64, "\(run.err)")
        #expect(try !sandbox.names().contains { $0.hasPrefix("new.") })
    }

    /// The ways of Support/fake_token.c, and the calls that the module must get.
    @Test(
        "a token that fails in a way of its own is refused after one login at most, and is finalized",
        arguments: [
            ("locked", "pin-locked", 77, ""), ("locks", "pin-locked", 77, "login"),
            ("expired", "pin-locked", 77, "login"),
            ("last-try", "pin-needed", 77, ""), ("no-pin", "pin-needed", 77, "login"),
            ("wrong", "wrong-pin", 77, "login"),
            ("short", "wrong-pin", 77, "login"), ("removed-at-login", "signer-failed", 69, "login"),
            ("removed", "signer-failed", 69, "login,sign"), ("too-long", "signer-refused", 77, "login,sign"),
            ("not-permitted", "signer-refused", 77, "login"), ("no-eddsa", "wrong-algorithm", 65, "login"),
            ("montgomery", "wrong-algorithm", 65, "login"),
            ("long-point", "wrong-algorithm", 65, "login"), ("raw-point", "signer-protocol", 76, "login,sign"),
            ("bit-string", "signer-protocol", 76, "login,sign"), ("info-only", "signer-protocol", 76, "login,sign"),
            ("short-signature", "signer-protocol", 76, "login,sign"),
            ("long-signature", "signer-protocol", 76, "login,sign"),
            ("keypad", "signer-protocol", 76, "login by keypad,sign"), ("many-slots", "token-unavailable", 69, ""),
            ("no-session", "token-unavailable", 69, ""), ("no-functions", "token-unavailable", 69, ""),
            ("many-objects", "no-such-key", 66, "login"), ("endless", "ambiguous-key", 64, "login"),
            ("long-attributes", "no-such-key", 66, "login"),
        ] as [(String, String, Int32, String)])
    func failingToken(way: String, code: String, exit: Int32, calls: String) async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", [1, 2, 3])
        let module = try await sandbox.makeFakeModule()
        let run = try await sign(
            sandbox,
            env: [
                "OTAFLASH_PKCS11_MODULE": module, "FAKE_TOKEN": way, "FAKE_TOKEN_CALLS": sandbox.path("calls"),
            ])
        try expect(run, code, exit, "", sandbox: sandbox)
        #expect(run.err.contains("type the PIN on the keypad of the token fake") == (way == "keypad"))
        let made = try String(decoding: sandbox.read("calls"), as: UTF8.self).split(separator: "\n")
        #expect(made.joined(separator: ",") == "initialize,\(calls.isEmpty ? "" : calls + ",")finalize")
    }

    @Test(
        "the encodings of a public key in tokens result in the key of RFC 8032",
        arguments: ["none", "raw-point", "bit-string", "info-only"])
    func encodingsOfThePublicKey(way: String) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run(
            "keygen", "fw", "--from", "pkcs11:object=fw", "--pin-env", "PIN", "--format", "json",
            env: sandbox.tokens(module: try await sandbox.makeFakeModule()).merging(["FAKE_TOKEN": way]) { $1 })
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().key?.key_id?.string == "21fe31dfa154a261")
    }

    @Test("a file that is no PKCS#11 version 2 or 3 is refused", arguments: ["version-1", "no-list"])
    func otherModules(way: String) async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", [1, 2, 3])
        let module = try await sandbox.makeFakeModule()
        let run = try await sign(sandbox, env: ["OTAFLASH_PKCS11_MODULE": module, "FAKE_TOKEN": way])
        try expect(run, "token-unavailable", 69, module, sandbox: sandbox)
    }
}

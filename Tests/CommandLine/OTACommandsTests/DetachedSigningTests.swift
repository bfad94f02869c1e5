import FoundationEssentials
import Glibc
import OTATestSupport
import SystemPackage
import Testing

/// `sign` with a private key on another machine. `openssl` is the other machine.
@Suite("Detached signing") struct DetachedSigningTests {
    private static let date = ["SOURCE_DATE_EPOCH": "1767225600"]
    private static let release = ["--product", "demo", "--version", "1.1.0"]
    private static let layout = [
        "--as", "mcuboot", "--version", "1.4.0", "--header-size", "0x200", "--pad-header", "--slot-size", "0x64000",
        "--security-counter", "3",
    ]

    /// Makes the key pairs `a` and `b`, `fw.bin`, its manifest `fw.manifest`, and the signatures `a.sig` and `b.sig`.
    private func signedManifest() async throws -> Sandbox {
        let sandbox = try Sandbox()
        for key in ["a", "b"] { #expect(try await sandbox.run("keygen", key).exit == 0) }
        try sandbox.write("fw.bin", Sandbox.image(20_000))
        let run = try await sandbox.run(
            ["sign", "fw.bin", "--to-sign", "fw.manifest"] + Self.release, env: Self.date)
        #expect(run.exit == 0, "\(run.err)")
        for key in ["a", "b"] { try await sign(sandbox, "fw.manifest", with: key) }
        return sandbox
    }

    /// Signs a file with `openssl` and an Ed25519 key. The signature is `KEY.sig`.
    private func sign(_ sandbox: Sandbox, _ file: String, with key: String) async throws {
        try await sandbox.openssl(
            "pkeyutl", "-sign", "-rawin", "-inkey", "\(key).pem", "-in", file, "-out", "\(key).sig")
    }

    private func attach(_ sandbox: Sandbox, _ image: String, _ options: String...) async throws -> Run {
        try await sandbox.run(["sign", image, "--format", "json"] + options)
    }

    private func code(_ run: Run) throws -> String? { try run.json().error?.code?.string }

    // MARK: Bundles

    @Test(
        "signatures by openssl give the same bundle as sign --key, in any order of signatures and keys",
        arguments: [
            ["--signature", "a.sig", "--signature", "b.sig", "--public-key", "a.pub.pem", "--public-key", "b.pub.pem"],
            ["--signature", "b.sig", "--public-key", "a.pub.pem", "--signature", "a.sig", "--public-key", "b.pub.pem"],
        ])
    func sameBundle(order: [String]) async throws {
        let sandbox = try await signedManifest()
        let words = ["sign", "fw.bin", "--key", "b.pem", "--key", "a.pem", "-o", "expected.otaf"] + Self.release
        #expect(try await sandbox.run(words, env: Self.date).exit == 0)
        // The time comes from the manifest, not from the clock.
        let run = try await sandbox.run(["sign", "fw.bin", "--manifest", "fw.manifest", "-o", "fw.otaf"] + order)
        #expect(run.exit == 0, "\(run.err)")
        #expect(try sandbox.read("fw.otaf") == sandbox.read("expected.otaf"))
    }

    @Test("--to-sign reports the file, its length and its SHA-256")
    func reportsTheBytesToSign() async throws {
        let sandbox = try await signedManifest()
        let run = try await sandbox.run(
            ["sign", "fw.bin", "--to-sign", "again", "--format", "json"] + Self.release, env: Self.date)
        let json = try run.json()
        #expect(run.exit == 0 && json.members == ["command", "exit", "ok", "schema", "to_sign"])
        let digest = try await sandbox.openssl("dgst", "-sha256", "-r", "again").prefix(64)
        #expect(json.to_sign?.file?.string == "again")
        #expect(json.to_sign?.bytes?.number == Double(try sandbox.read("again").count))
        #expect(json.to_sign?.sha256?.string == String(decoding: digest, as: UTF8.self))
        #expect(try sandbox.read("again") == sandbox.read("fw.manifest"))
        #expect(!sandbox.exists("fw.bin.otaf"))
    }

    @Test(
        "inspect shows the contents of a manifest without signatures; verify and push name it, and say how to attach them"
    )
    func manifestAlone() async throws {
        let sandbox = try await signedManifest()
        let shown = try await sandbox.run("inspect", "fw.manifest", "--trust", "a.pub.pem", "--format", "json")
        let bundle = try shown.json().bundle
        #expect(
            shown.exit == 0 && bundle?.product?.string == "demo" && bundle?.version?.string == "1.1.0", "\(shown.out)")
        let digest = try await sandbox.openssl("dgst", "-sha256", "-r", "fw.manifest").prefix(64)
        #expect(bundle?.manifest_sha256?.string == String(decoding: digest, as: UTF8.self))
        #expect(try bundle?.signatures?.array?.isEmpty == true && shown.json().verified?.bool == false)
        let text = try await sandbox.run("inspect", "fw.manifest")
        #expect(text.out.contains("to sign it: otaflash sign fw.manifest --key KEY.pem"), "\(text.out)")
        for words in [["verify", "fw.manifest"], ["push", "fw.manifest", "--device", "sim:kitchen"]] {
            let run = try await sandbox.run(words + ["--trust", "a.pub.pem"])
            #expect(run.exit == 65 && run.err.contains("fw.manifest is a manifest without signatures"), "\(run.err)")
            #expect(run.err.contains("otaflash sign IMAGE --manifest fw.manifest --signature FILE.sig"), "\(run.err)")
        }
    }

    @Test("sign of a manifest writes the signature that openssl makes, and refuses values of a release")
    func signatureOfAManifest() async throws {
        let sandbox = try await signedManifest()
        let run = try await sandbox.run("sign", "fw.manifest", "--key", "a.pem", "--format", "json")
        let json = try run.json()
        #expect(run.exit == 0 && json.signature?.file?.string == "fw.manifest.sig", "\(run.out)")
        #expect(try sandbox.read("fw.manifest.sig") == sandbox.read("a.sig"))
        let attached = try await attach(
            sandbox, "fw.bin", "--manifest", "fw.manifest", "--signature", "fw.manifest.sig", "--public-key",
            "a.pub.pem",
            "-o", "alone.otaf")
        #expect(attached.exit == 0, "\(attached.err)")
        let counter = try await sandbox.run("sign", "fw.manifest", "--key", "a.pem", "--counter", "1")
        #expect(counter.exit == 64 && counter.err.contains("contains the value of --counter"), "\(counter.err)")
        let both = try await sandbox.run("sign", "fw.manifest", "--key", "a.pem", "--key", "b.pem", "--force")
        #expect(both.exit == 64, "\(both.err)")
        let again = try await sandbox.run("sign", "fw.manifest", "--key", "a.pem", "--format", "json")
        #expect(try again.exit == 73 && code(again) == "output-exists")
    }

    @Test("a second signer gets the manifest of a bundle, and the signature is added to the bundle")
    func secondSigner() async throws {
        let sandbox = try await signedManifest()
        let first = try await attach(
            sandbox, "fw.bin", "--manifest", "fw.manifest", "--signature", "a.sig", "--public-key", "a.pub.pem", "-o",
            "one.otaf")
        #expect(first.exit == 0, "\(first.err)")
        #expect(try await sandbox.run("sign", "one.otaf", "--to-sign", "again").exit == 0)
        #expect(try sandbox.read("again") == sandbox.read("fw.manifest"))
        #expect(try await sandbox.run("sign", "one.otaf", "--key", "b.pem", "-o", "expected.otaf").exit == 0)
        let options = ["--signature", "b.sig", "--public-key", "b.pub.pem"]
        #expect(try await code(sandbox.run(["sign", "one.otaf", "--format", "json"] + options)) == "output-exists")
        #expect(try await sandbox.run(["sign", "one.otaf", "-o", "two.otaf"] + options).exit == 0)
        #expect(try sandbox.read("two.otaf") == sandbox.read("expected.otaf"))
        #expect(try await sandbox.run(["sign", "one.otaf", "--force"] + options).exit == 0)
        #expect(try sandbox.read("one.otaf") == sandbox.read("expected.otaf"))
        let again = try await sandbox.run(["sign", "one.otaf", "--force", "--format", "json"] + options)
        #expect(try again.exit == 64 && code(again) == "already-signed")
    }

    @Test("image and bundle may be standard input, and the output standard output")
    func standardStreams() async throws {
        let sandbox = try await signedManifest()
        let image = try sandbox.read("fw.bin")
        let attach = "--signature a.sig --public-key a.pub.pem -o - 2>errors"
        let run = try await sandbox.shell(
            """
            set -e
            SOURCE_DATE_EPOCH=1767225600 "$0" sign - --to-sign - --product demo --version 1.1.0 <fw.bin 2>errors \
                | cmp - fw.manifest
            "$0" sign - --manifest fw.manifest \(attach) <fw.bin >one.otaf
            "$0" sign - \(attach.replacing("a.", with: "b.")) <one.otaf >two.otaf
            """)
        #expect(run.exit == 0, "\(run.err)")
        #expect(try sandbox.read("two.otaf").suffix(20_000) == image[...])
        let verified = try await sandbox.run(
            "verify", "two.otaf", "--trust", "a.pub.pem", "--trust", "b.pub.pem", "--signatures", "2")
        #expect(verified.exit == 0, "\(verified.err)")
    }

    @Test("a signature may be raw bytes, hex or Base64", arguments: ["hex", "HEX", "base64", "lines"])
    func encodings(encoding: String) async throws {
        let sandbox = try await signedManifest()
        let raw = try sandbox.read("a.sig")
        let text =
            switch encoding {
            case "base64": Data(raw).base64EncodedString() + "\n"
            case "lines": Data(raw).base64EncodedString(options: [.lineLength64Characters]) + "\r\n"
            default:
                raw.map { byte in
                    let digits = String(byte, radix: 16, uppercase: encoding == "HEX")
                    return digits.count == 1 ? "0" + digits : digits
                }.joined()
            }
        try sandbox.write("text", Array(text.utf8))
        let run = try await attach(
            sandbox, "fw.bin", "--manifest", "fw.manifest", "--signature", "text", "--public-key", "a.pub.pem")
        #expect(run.exit == 0, "\(run.err)")
    }

    @Test(
        "a signature that is not valid for exactly one of the keys is refused, and no bundle is written",
        arguments: [
            (["a.sig"], ["b"]), (["a.sig", "b.sig"], ["a"]), (["a.sig"], ["a", "b"]),
            (["a.sig", "a.sig"], ["a", "b"]),
            (["short"], ["a"]), (["long"], ["a"]), (["flipped"], ["a"]), (["a.pem"], ["a"]), (["hex"], ["a"]),
            (["fw.bin"], ["a"]),
        ])
    func unmatched(signatures: [String], keys: [String]) async throws {
        let sandbox = try await signedManifest()
        let raw = try sandbox.read("a.sig")
        try sandbox.write("short", raw.dropLast())
        try sandbox.write("long", raw + [0x0A])
        try sandbox.write("flipped", raw.dropLast() + [(raw.last ?? 0) ^ 1])
        try sandbox.write("hex", Array(String(repeating: "0a", count: 64).utf8))
        let run = try await sandbox.run(
            ["sign", "fw.bin", "--manifest", "fw.manifest", "--format", "json"]
                + signatures.flatMap { ["--signature", $0] } + keys.flatMap { ["--public-key", "\($0).pub.pem"] })
        #expect(try run.exit == 77 && code(run) == "signature-unmatched", "\(run.err)")
        #expect(!sandbox.exists("fw.bin.otaf"))
    }

    @Test(
        "an image that differs from the manifest's image is refused with digest-mismatch", arguments: [20_000, 19_999])
    func anotherImage(size: Int) async throws {
        let sandbox = try await signedManifest()
        try sandbox.write("fw.bin", Sandbox.image(size, seed: 2))
        let run = try await attach(
            sandbox, "fw.bin", "--manifest", "fw.manifest", "--signature", "a.sig", "--public-key", "a.pub.pem")
        #expect(try run.exit == 77 && code(run) == "digest-mismatch" && !sandbox.exists("fw.bin.otaf"), "\(run.err)")
    }

    @Test("a damaged bundle gets no manifest for a second signer and no second signature")
    func damagedBundle() async throws {
        let sandbox = try await signedManifest()
        try await sandbox.release(options: ["--force"])
        var bundle = try sandbox.read("fw.otaf")
        bundle[bundle.count - 1] ^= 1
        try sandbox.write("bad.otaf", bundle)
        let run = try await attach(sandbox, "bad.otaf", "--to-sign", "again")
        #expect(try run.exit == 77 && code(run) == "digest-mismatch" && !sandbox.exists("again"))
        let attached = try await attach(
            sandbox, "bad.otaf", "--signature", "a.sig", "--public-key", "a.pub.pem", "-o", "x.otaf")
        #expect(try attached.exit == 77 && code(attached) == "digest-mismatch" && !sandbox.exists("x.otaf"))
    }

    @Test(
        "an input file of another kind is refused with its own code",
        arguments: [
            ("fw.bin", "empty", "a.sig", "a.pub.pem", "empty-file"),
            ("fw.bin", "fw.manifest", "empty", "a.pub.pem", "empty-file"),
            ("fw.bin", "fw.manifest", "a.sig", "a.pem", "not-a-key"),
            ("fw.bin", "fw.manifest", "a.sig", "empty", "not-a-key"),
            ("fw.bin", "a.sig", "a.sig", "a.pub.pem", "bad-magic"),
            ("empty", "fw.manifest", "a.sig", "a.pub.pem", "empty-image"),
            ("fw.bin", "none", "a.sig", "a.pub.pem", "no-such-file"),
            ("fw.bin", "fw.manifest", "none", "a.pub.pem", "no-such-file"),
            ("fw.bin", "fw.manifest", "a.sig", "none", "no-such-file"),
            ("fw.bin", "fw.manifest", "a.sig", "ec.pub.pem", "wrong-algorithm"),
        ])
    func foreignFiles(image: String, manifest: String, signature: String, key: String, expected: String) async throws {
        let sandbox = try await signedManifest()
        try sandbox.write("empty", [])
        try await sandbox.openssl(
            "genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "ec.pem")
        try await sandbox.openssl("pkey", "-in", "ec.pem", "-pubout", "-out", "ec.pub.pem")
        let run = try await attach(
            sandbox, image, "--manifest", manifest, "--signature", signature, "--public-key", key, "-o", "x.otaf")
        #expect(try code(run) == expected && !sandbox.exists("x.otaf"), "\(run.err)")
    }

    @Test(
        "options that contradict each other are a usage error, and nothing is written",
        arguments: [
            ["--to-sign", "x", "--key", "a.pem"], ["--to-sign", "x", "-o", "x"],
            ["--to-sign", "x", "--manifest", "fw.manifest"],
            ["--to-sign", "x", "--signature", "a.sig"], ["--to-sign", "x", "--public-key", "a.pub.pem"],
            ["--to-sign", "x", "--passphrase-fd", "3"], ["--to-sign", "-"], ["--to-sign", ""],
            ["--manifest", "fw.manifest"], ["--manifest", "fw.manifest", "--signature", "a.sig"],
            ["--manifest", "fw.manifest", "--public-key", "a.pub.pem"], ["--signature", "a.sig"],
            ["--public-key", "a.pub.pem"],
            ["--signature", "a.sig", "--public-key", "a.pub.pem"],
            ["--manifest", "-", "--signature", "a.sig", "--public-key", "a.pub.pem"],
            ["--manifest", "fw.manifest", "--signature", "-", "--public-key", "a.pub.pem"],
            ["--manifest", "fw.manifest", "--signature", "a.sig", "--public-key", "-"],
            [
                "--manifest", "fw.manifest", "--signature", "a.sig", "--public-key", "a.pub.pem", "--public-key",
                "a.pub.pem",
            ],
            ["--manifest", "fw.manifest", "--signature", "a.sig", "--public-key", "a.pub.pem", "--key", "a.pem"],
            [
                "--manifest", "fw.manifest", "--signature", "a.sig", "--public-key", "a.pub.pem", "--passphrase-env",
                "P",
            ],
        ])
    func contradictions(options: [String]) async throws {
        let sandbox = try await signedManifest()
        let isRelease = options[0] == "--to-sign"
        let run = try await sandbox.run(
            ["sign", "fw.bin", "--format", "json"] + (isRelease ? Self.release : []) + options)
        #expect(try run.exit == 64 && code(run) == "usage", "\(run.err)")
        #expect(!sandbox.exists("x") && !sandbox.exists("fw.bin.otaf"))
    }

    @Test(
        "an option of a release is refused together with --manifest",
        arguments: [
            ["--version", "1.1.0"], ["--product", "demo"], ["--counter", "0"], ["--hardware", "1"],
            ["--requires", "1.0.0"],
            ["--minimum-battery", "1"], ["--source", "x"],
        ])
    func releaseOptions(option: [String]) async throws {
        let sandbox = try await signedManifest()
        let run = try await sandbox.run(
            [
                "sign", "fw.bin", "--format", "json", "--manifest", "fw.manifest", "--signature", "a.sig",
                "--public-key",
                "a.pub.pem",
            ] + option)
        #expect(try run.exit == 64 && code(run) == "usage" && run.err.contains(option[0]), "\(run.err)")
    }

    @Test(
        "--force does not replace an input of the command",
        arguments: [
            ["--to-sign", "fw.bin"], ["--to-sign", "a.pem"], ["--to-sign", "./link"],
            ["-o", "fw.manifest"], ["-o", "a.sig"], ["-o", "a.pub.pem"], ["-o", "fw.bin"],
        ])
    func keepsTheInputs(output: [String]) async throws {
        let sandbox = try await signedManifest()
        _ = try await sandbox.shell("ln -s fw.bin link")
        let before = try ["fw.bin", "fw.manifest", "a.sig", "a.pem", "a.pub.pem"].map { try sandbox.read($0) }
        let options =
            output[0] == "-o"
            ? ["--manifest", "fw.manifest", "--signature", "a.sig", "--public-key", "a.pub.pem"] : Self.release
        let run = try await sandbox.run(["sign", "fw.bin", "--force", "--format", "json"] + options + output)
        #expect(try run.exit == 73 && code(run) == "output-exists", "\(run.err)")
        #expect(try ["fw.bin", "fw.manifest", "a.sig", "a.pem", "a.pub.pem"].map { try sandbox.read($0) } == before)
    }

    @Test("without --key, --to-sign and --signature, sign refuses with key-required", arguments: [release, layout])
    func keyRequired(options: [String]) async throws {
        let sandbox = try await signedManifest()
        let run = try await sandbox.run(["sign", "fw.bin", "--format", "json"] + options)
        #expect(try run.exit == 64 && code(run) == "key-required" && run.err.contains("--key FILE"), "\(run.err)")
    }

    // MARK: MCUboot images

    @Test(
        "an Ed25519 signature by openssl gives the same MCUboot image as sign --key",
        arguments: [[], ["--sha", "512"], ["--pure"]])
    func sameImage(scheme: [String]) async throws {
        let sandbox = try await signedManifest()
        let options = Self.layout + scheme
        #expect(try await sandbox.run(["sign", "fw.bin", "--key", "a.pem", "-o", "expected"] + options).exit == 0)
        #expect(try await sandbox.run(["sign", "fw.bin", "--to-sign", "bytes"] + options).exit == 0)
        try await sign(sandbox, "bytes", with: "a")
        let attach = ["sign", "fw.bin", "--signature", "a.sig", "--public-key", "a.pub.pem", "-o", "fw.signed"]
        let run = try await sandbox.run(attach + options)
        #expect(run.exit == 0, "\(run.err)")
        #expect(try sandbox.read("fw.signed") == sandbox.read("expected"))
        let other = try await sandbox.run(
            attach + options.map { $0 == "1.4.0" ? "1.4.1" : $0 } + ["--force", "--format", "json"])
        #expect(try other.exit == 77 && code(other) == "signature-unmatched")
    }

    private static let imgtool = FilePath(PythonEnvironment.python).removingLastComponent().appending("imgtool").string
    private static let pss = ["-pkeyopt", "rsa_padding_mode:pss", "-pkeyopt", "rsa_pss_saltlen:32"]

    @Test(
        "the bytes to sign and the image are those of imgtool --vector-to-sign and --fix-sig",
        arguments: [
            ("ED25519", [], ["-rawin"]),
            ("EC", ["-pkeyopt", "ec_paramgen_curve:P-256"], ["-pkeyopt", "digest:sha256"]),
            ("RSA", ["-pkeyopt", "rsa_keygen_bits:2048"], ["-pkeyopt", "digest:sha256"] + pss),
            ("RSA", ["-pkeyopt", "rsa_keygen_bits:3072"], ["-pkeyopt", "digest:sha256"] + pss),
        ])
    func asImgtool(algorithm: String, key: [String], signing: [String]) async throws {
        let sandbox = try await signedManifest()
        func imgtool(_ options: String...) async throws {
            let layout = [
                "sign", "--version", "1.4.0", "--header-size", "0x200", "--pad-header", "--slot-size", "0x64000",
                "--security-counter", "3", "--align", "1",
            ]
            let run = try await Command.run(Self.imgtool, layout + options, in: sandbox.folder)
            #expect(run.succeeded, "\(run.errorText)")
        }
        func openssl(_ arguments: [String]) async throws {
            let run = try await Command.run("openssl", arguments, in: sandbox.folder)
            try #require(run.succeeded, "\(arguments): \(run.errorText)")
        }
        try await openssl(["genpkey", "-quiet", "-algorithm", algorithm, "-out", "k.pem"] + key)
        try await openssl(["pkey", "-in", "k.pem", "-pubout", "-out", "k.pub.pem"])

        #expect(try await sandbox.run(["sign", "fw.bin", "--to-sign", "bytes"] + Self.layout).exit == 0)
        try await imgtool("--vector-to-sign", "digest", "fw.bin", "vector.bin")
        #expect(try sandbox.read("bytes") == sandbox.read("vector.bin"))
        #expect(try await sandbox.run(["sign", "fw.bin", "--to-sign", "pure", "--pure"] + Self.layout).exit == 0)
        try await imgtool("--vector-to-sign", "payload", "--pure", "fw.bin", "payload.bin")
        #expect(try sandbox.read("pure") == sandbox.read("payload.bin"))

        try await openssl(["pkeyutl", "-sign", "-inkey", "k.pem", "-in", "bytes", "-out", "k.sig"] + signing)
        try sandbox.write("k.base64", Array(Data(sandbox.read("k.sig")).base64EncodedString().utf8))
        try await imgtool("--fix-sig", "k.base64", "--fix-sig-pubkey", "k.pub.pem", "fw.bin", "expected.bin")
        let run = try await sandbox.run(
            ["sign", "fw.bin", "--signature", "k.sig", "--public-key", "k.pub.pem", "-o", "fw.signed.bin"] + Self.layout
        )
        #expect(run.exit == 0, "\(run.err)")
        #expect(try sandbox.read("fw.signed.bin") == sandbox.read("expected.bin"))
        #expect(try await sandbox.run("verify", "fw.signed.bin", "--trust", "k.pub.pem").exit == 0)
        let pure = try await sandbox.run(
            [
                "sign", "fw.bin", "--signature", "k.sig", "--public-key", "k.pub.pem", "--pure", "--format", "json",
                "-o", "x",
            ]
                + Self.layout)
        #expect(try code(pure) == (algorithm == "ED25519" ? "signature-unmatched" : "wrong-algorithm"))
    }

    @Test(
        "an MCUboot image has exactly one signature and no manifest",
        arguments: [
            ["--signature", "a.sig", "--signature", "b.sig", "--public-key", "a.pub.pem"],
            ["--signature", "a.sig", "--public-key", "a.pub.pem", "--public-key", "b.pub.pem"],
            ["--signature", "a.sig", "--public-key", "a.pub.pem", "--manifest", "fw.manifest"],
            ["--signature", "a.sig", "--public-key", "a.pub.pem", "--product", "demo"],
            ["--to-sign", "x", "--product", "demo"], ["--signature", "a.sig"],
        ])
    func oneSignature(options: [String]) async throws {
        let sandbox = try await signedManifest()
        let run = try await sandbox.run(["sign", "fw.bin", "--format", "json"] + Self.layout + options)
        #expect(try run.exit == 64 && code(run) == "usage" && !sandbox.exists("fw.signed.bin"), "\(run.err)")
    }
}

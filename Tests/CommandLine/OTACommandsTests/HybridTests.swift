import OTAFirmware
import OTASigning
import Testing

@Suite(
    "Commands with ML-DSA keys",
    .enabled(if: SignatureAlgorithm.mlDSA65.isAvailable, "libcrypto is older than OpenSSL 3.5"))
struct HybridTests {
    private static let files = [
        "release.ml-dsa-65.pem", "release.ml-dsa-65.pub.pem", "release.ml-dsa-65.pub.pem.scope", "release.pem",
        "release.pub.pem", "release.pub.pem.scope",
    ]
    private static let both = ["--key", "release.pem", "--key", "release.ml-dsa-65.pem"]

    /// A sandbox with a hybrid pair of keys, its public files in the folder `trust`, and an image.
    private static func sandbox() async throws -> Sandbox {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("keygen", "release", "--algorithm", "hybrid")
        #expect(run.exit == 0, "\(run.err)")
        try sandbox.write("fw.bin", Sandbox.image(5000))
        let copy = try await sandbox.shell("mkdir -m 700 trust && cp -p release*.pub.pem* trust/")
        #expect(copy.exit == 0)
        return sandbox
    }

    private static func sign(_ sandbox: Sandbox, _ keys: [String], _ output: String = "fw.otaf") async throws -> Run {
        try await sandbox.run(
            ["sign", "fw.bin", "--product", "demo", "--version", "1.1.0", "-o", output, "--format", "json"] + keys,
            env: ["SOURCE_DATE_EPOCH": "1767225600"])
    }

    @Test("keygen makes a pair: six files and both ids, and only the owner can read the private keys")
    func keygen() async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("keygen", "release", "--algorithm", "hybrid", "--format", "json")
        let json = try run.json()
        #expect(
            run.exit == 0 && json.key?.algorithm?.string == "Ed25519" && json.partner?.algorithm?.string == "ML-DSA-65")
        #expect(try sandbox.names().filter { $0.hasPrefix("release") } == Self.files)
        let modes = try await sandbox.shell("stat -c %a release.pem release.ml-dsa-65.pem release.pub.pem.scope")
        #expect(modes.out == "600\n600\n644\n")
        let id = try #require(json.partner?.key_id?.string)
        #expect(try String(decoding: sandbox.read("release.pub.pem.scope"), as: UTF8.self).hasSuffix("with = \(id)\n"))
        let inspect = try await sandbox.run("inspect", "release.ml-dsa-65.pub.pem", "--format", "json")
        #expect(try inspect.json().key?.key_id?.string == id && inspect.json().key?.algorithm?.string == "ML-DSA-65")
        let secret = try await sandbox.run("inspect", "release.ml-dsa-65.pem")
        #expect(secret.out.contains(id) && secret.out.contains("for bundles only: MCUboot does not support ML-DSA"))
    }

    @Test("keygen leaves no file of a pair behind if one of them exists", arguments: files)
    func allOrNothing(_ existing: String) async throws {
        let sandbox = try Sandbox()
        try sandbox.write(existing, [1])
        let run = try await sandbox.run("keygen", "release", "--algorithm", "hybrid", "--format", "json")
        #expect(try run.exit == 73 && run.json().error?.code?.string == "output-exists", "\(run.out)")
        #expect(try sandbox.names().filter { $0.hasPrefix("release") } == [existing])
        #expect(try sandbox.read(existing) == [1])
    }

    @Test(
        "the commands of the pages for a pair run as they are written",
        arguments: [
            ("docs/bundle-format.md", "otaflash keygen pair"), ("docs/signing-keys.md", "otaflash keygen firm"),
        ])
    func pages(_ page: String, _ start: String) async throws {
        let block = try #require(try DocumentationTests.blocks(of: page).first { $0.first?.hasPrefix(start) == true })
        let sandbox = try Sandbox()
        try sandbox.write("app.bin", Sandbox.image(5000))
        let root = Sandbox.repository("firmware-samples")
        let run = try await sandbox.shell(
            "set -eu; PATH=$(dirname \"$0\"):$PATH; ln -s \(root) .\n" + block.joined(separator: "\n"))
        #expect(run.exit == 0, "\(run.out)\(run.err)")
        let verified = run.out.split(separator: "\n").count { $0.hasPrefix("Signature Verified Successfully") }
        #expect(verified == (page == "docs/bundle-format.md" ? 2 : 0), "\(run.out)")
    }

    @Test("an encrypted pair signs with one passphrase", arguments: ["hybrid", "ml-dsa-44", "ml-dsa-65", "ml-dsa-87"])
    func encrypted(_ algorithm: String) async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", Sandbox.image(5000))
        let env = ["SECRET": "correct horse battery"]
        let made = try await sandbox.run(
            "keygen", "release", "--algorithm", algorithm, "--passphrase-env", "SECRET", env: env)
        #expect(made.exit == 0, "\(made.err)")
        let keys = algorithm == "hybrid" ? Self.both : ["--key", "release.pem"]
        let run = try await sandbox.run(
            ["sign", "fw.bin", "--product", "demo", "--version", "1.1.0", "--passphrase-env", "SECRET"] + keys, env: env
        )
        #expect(run.exit == 0, "\(run.err)")
    }

    @Test("a bundle with both signatures is verified as one person, and with one signature refused as partner-missing")
    func verifies() async throws {
        let sandbox = try await Self.sandbox()
        #expect(try await Self.sign(sandbox, Self.both).exit == 0)
        let run = try await sandbox.run("verify", "fw.otaf", "--trust", "trust", "--format", "json")
        #expect(try run.exit == 0 && run.json().counted_signers?.number == 1, "\(run.out)")
        let text = try await sandbox.run("verify", "fw.otaf", "--trust", "trust")
        #expect(text.out.contains("count as 1 signer: the keys of each algorithm are counted (1 Ed25519, 1 ML-DSA-65)"))
        let two = try await sandbox.run(
            "verify", "fw.otaf", "--trust", "trust", "--signatures", "2", "--format", "json")
        #expect(try two.exit == 77 && two.json().error?.code?.string == "too-few-signatures")
        for (key, name) in [("release.pem", "one.otaf"), ("release.ml-dsa-65.pem", "two.otaf")] {
            #expect(try await Self.sign(sandbox, ["--key", key], name).exit == 0)
            let half = try await sandbox.run("verify", name, "--trust", "trust", "--format", "json")
            #expect(try half.exit == 77 && half.json().error?.code?.string == "partner-missing", "\(half.out)")
            #expect(
                try half.json().error?.hint?.string?.contains("otaflash sign \(name) --key PARTNER.pem --force") == true
            )
            let inspect = try await sandbox.run("inspect", name, "--trust", "trust", "--format", "json")
            #expect(
                try inspect.json().bundle?.signatures?.array?.first?.missing_partner?.string != nil, "\(inspect.out)")
            // The other signature completes the bundle.
            let other = key == "release.pem" ? "release.ml-dsa-65.pem" : "release.pem"
            #expect(try await sandbox.run("sign", name, "--key", other, "--force").exit == 0)
            #expect(try await sandbox.run("verify", name, "--trust", "trust").exit == 0)
        }
        #expect(try sandbox.read("one.otaf") == sandbox.read("fw.otaf"))
    }

    @Test("a bundle signed by a pair through a program, detached signatures and key files has the same bytes")
    func otherWays() async throws {
        let sandbox = try await Self.sandbox()
        #expect(try await Self.sign(sandbox, Self.both).exit == 0)
        try sandbox.write(
            "kms",
            Array(
                """
                #!/bin/sh -e
                case $1 in
                public-key) openssl pkey -in release.ml-dsa-65.pem -pubout ;;
                sign)
                    openssl pkeyutl -sign -rawin -in /dev/stdin -inkey release.ml-dsa-65.pem \\
                        -pkeyopt "context-string:$OTAFLASH_SIGNATURE_CONTEXT" -pkeyopt deterministic:1 | base64
                    ;;
                esac
                """.utf8))
        #expect(try await sandbox.shell("chmod +x kms").exit == 0)
        let program = try await Self.sign(sandbox, ["--key", "exec:./kms", "--key", "release.pem"], "program.otaf")
        #expect(program.exit == 0, "\(program.out)")
        #expect(try sandbox.read("program.otaf") == sandbox.read("fw.otaf"))
        let script = """
            set -e
            export SOURCE_DATE_EPOCH=1767225600
            "$0" sign fw.bin --product demo --version 1.1.0 --to-sign m
            openssl pkeyutl -sign -rawin -in m -inkey release.pem -out m.ed25519
            openssl pkeyutl -sign -rawin -in m -inkey release.ml-dsa-65.pem -pkeyopt context-string:otaflash-bundle \
                -pkeyopt deterministic:1 | od -An -v -tx1 >m.ml-dsa
            "$0" sign fw.bin --manifest m --signature m.ml-dsa --signature m.ed25519 -o detached.otaf \
                --public-key release.pub.pem --public-key release.ml-dsa-65.pub.pem
            "$0" sign m --key release.ml-dsa-65.pem -o m.sig
            """
        let detached = try await sandbox.shell(script)
        #expect(detached.exit == 0, "\(detached.err)")
        #expect(try sandbox.read("detached.otaf") == sandbox.read("fw.otaf"))
        #expect(try sandbox.read("m.sig").count == 3309)
        try sandbox.write("bad.sig", [UInt8](repeating: 1, count: 100))
        let short = try await sandbox.run(
            "sign", "fw.bin", "--manifest", "m", "--signature", "bad.sig", "--public-key", "release.ml-dsa-65.pub.pem",
            "-o", "x.otaf", "--format", "json")
        let message = try short.json().error?.message?.string
        #expect(message?.contains("has 100 bytes; a signature by ML-DSA-65 has 3309 bytes") == true, "\(short.out)")
    }

    @Test("a program that signs without the context string is refused, and the hint names the context")
    func contextOfPrograms() async throws {
        let sandbox = try await Self.sandbox()
        try sandbox.write(
            "kms",
            Array(
                """
                #!/bin/sh -e
                [ "$1" = sign ] || exec openssl pkey -in release.ml-dsa-65.pem -pubout
                openssl pkeyutl -sign -rawin -in /dev/stdin -inkey release.ml-dsa-65.pem
                """.utf8))
        #expect(try await sandbox.shell("chmod +x kms").exit == 0)
        let run = try await Self.sign(sandbox, ["--key", "exec:./kms"])
        #expect(try run.exit == 76 && run.json().error?.code?.string == "signer-protocol", "\(run.out)")
        #expect(try run.json().error?.hint?.string?.contains("'otaflash-bundle'") == true)
        #expect(!sandbox.exists("fw.otaf"))
    }

    @Test("an ML-DSA key signs no MCUboot image, and its refusal names the way out")
    func images() async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.run(
            "sign", "fw.bin", "--as", "mcuboot", "--version", "1.0.0", "--header-size", "0x200", "--pad-header",
            "--key",
            "release.ml-dsa-65.pem", "--format", "json")
        #expect(try run.exit == 65 && run.json().error?.code?.string == "wrong-algorithm", "\(run.out)")
        #expect(try run.json().error?.message?.string?.contains("ML-DSA-65") == true)
    }

    @Test("attest signs with both keys of a pair, and an attestation by one of them is refused")
    func attestations() async throws {
        let sandbox = try await Self.sandbox()
        #expect(try await Self.sign(sandbox, Self.both).exit == 0)
        try sandbox.write("sbom.json", Array("{}".utf8))
        let attest = ["attest", "fw.otaf", "--predicate", "sbom.json", "--predicate-type", "https://spdx.dev/Document"]
        let run = try await sandbox.run(attest + Self.both + ["-o", "both.jsonl", "--format", "json"])
        #expect(try run.exit == 0 && run.json().attestation?.signers?.array?.count == 2, "\(run.out)")
        let verify = ["verify", "fw.otaf", "--trust", "trust", "--format", "json", "--attestation"]
        let both = try await sandbox.run(verify + ["both.jsonl"])
        #expect(try both.exit == 0 && both.json().attestations?.array?.first?.signers?.array?.count == 2, "\(both.out)")
        #expect(try await sandbox.run(attest + ["--key", "release.pem", "-o", "one.jsonl"]).exit == 0)
        let one = try await sandbox.run(verify + ["one.jsonl"])
        #expect(try one.exit == 77 && one.json().error?.code?.string == "attestation-untrusted", "\(one.out)")
        let twice = try await sandbox.run(attest + ["--key", "release.pem", "--key", "release.pem"])
        #expect(twice.exit == 64)
    }

    @Test("a fleet's record is not signed with an ML-DSA key")
    func fleet() async throws {
        let sandbox = try await Self.sandbox()
        #expect(try await Self.sign(sandbox, Self.both).exit == 0)
        let run = try await sandbox.run(
            "release", "publish", "fw.otaf", "--trust", "trust", "--key", "release.ml-dsa-65.pem", "--format", "json")
        #expect(run.exit != 0 && !run.out.contains("internal"), "\(run.out)")
    }
}

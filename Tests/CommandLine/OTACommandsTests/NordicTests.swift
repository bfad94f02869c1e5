import OTATestSupport
import Testing

@Suite("Commands with Nordic DFU packages") struct NordicTests {
    private static let key = Sandbox.repository("Fuzz/Corpus/keys/ecdsa-p256-public")
    /// The id of the test key: the first 8 bytes of the SHA-256 of its SubjectPublicKeyInfo.
    private static let keyID = "91936aee8497d60b"

    private static func path(_ name: String) -> String {
        Sandbox.repository("Tests/Support/nordic-packages/\(name).zip")
    }

    private func code(_ run: Run) throws -> String? { try run.json().error?.code?.string }

    /// Writes a package with this manifest, and with the files of a package of the tools.
    private func write(
        _ name: String, manifest: String? = nil, from source: String = "secure", adding script: String = "",
        to sandbox: Sandbox
    ) async throws {
        if let manifest { try sandbox.write("new.json", Array(manifest.utf8)) }
        let made = try await sandbox.shell(
            """
            rm -rf files && mkdir files && cd files && python3 -m zipfile -e "$1" . || exit
            [ ! -e ../new.json ] || mv ../new.json manifest.json
            \(script)
            python3 - "../$2" <<'END'
            import os, sys, zipfile
            with zipfile.ZipFile(sys.argv[1], 'w') as archive:
                for name in sorted(os.listdir()):
                    archive.writestr(zipfile.ZipInfo(name.replace('|', '/')), open(name, 'rb').read())
            END
            """, Self.path(source), name)
        #expect(made.exit == 0, "\(made.err)")
    }

    // MARK: inspect

    @Test("inspect shows the protocol, the parts, the versions and the signer of a package")
    func inspect() async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("inspect", Self.path("secure"), "--trust", Self.key)
        #expect(run.exit == 0)
        for text in [
            "package for Nordic Secure DFU, 1 image", "application, app.bin, 516 bytes", "0x123, 0xb6",
            "SHA-256 of the image in the init packet: valid", "ECDSA P-256 by \(Self.keyID), trusted key, valid",
            "Verified against",
        ] { #expect(run.out.contains(text), "\(text): \(run.out)") }
        let legacy = try await sandbox.run("inspect", Self.path("legacy-both"))
        #expect(legacy.exit == 0)
        for text in [
            "package for Nordic Legacy DFU", "softdevice_bootloader, sd_bl.bin, 648 bytes",
            "SoftDevice 388 bytes, bootloader 260 bytes",
            "type 0x52, revision 65535", "SoftDevices", "any", "CRC-16 of the image in the init packet: valid",
            "is not signed",
            "manifest.json, which is not signed", "Not verified",
        ] { #expect(legacy.out.contains(text), "\(text): \(legacy.out)") }
    }

    @Test("inspect --format json has the values that the tools were given")
    func inspectInJSON() async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("inspect", Self.path("secure-all"), "--trust", Self.key, "--format", "json")
        let json = try run.json()
        let package = try #require(json.package)
        #expect(json.verified?.bool == true && package.protocol?.string == "nordic-secure-dfu")
        let both = try #require(package.sections?[0])
        #expect(both.part?.string == "softdevice_bootloader" && both.softdevice_size?.number == 388)
        #expect(
            both.bootloader_size?.number == 260 && both.firmware_version?.number == 3
                && both.softdevices?[0]?.number == 0x123)
        let application = try #require(package.sections?[1])
        #expect(application.firmware_version?.number == 7 && application.hardware_version?.number == 52)
        #expect(application.digest_valid?.bool == true && application.signature?.key_id?.string == Self.keyID)
    }

    @Test(
        "inspect --format json names each kind of boot validation, and a signature that is not ECDSA",
        arguments: [
            ("secure-softdevice", ["softdevice", "application"], ["none", "sha256"], "ECDSA P-256"),
            ("secure-boot-signature", ["application"], ["ecdsaP256"], "ECDSA P-256"),
            ("hostile/ed25519", ["application"], ["crc"], "unknown"),
        ])
    func kindsInJSON(_ name: String, parts: [String], validations: [String], algorithm: String) async throws {
        let sandbox = try Sandbox()
        let package = try await sandbox.run("inspect", Self.path(name), "--format", "json").json().package
        let sections = try #require(package?.sections?.array)
        #expect(sections.map { $0.part?.string } == parts)
        #expect(sections.map { $0.boot_validation?[0]?.string } == validations)
        #expect(sections.allSatisfy { $0.signature?.algorithm?.string == algorithm })
    }

    // MARK: verify

    @Test("OpenSSL verifies the signatures that verify accepts, by the commands in the documentation")
    func openssl() async throws {
        let sandbox = try Sandbox()
        for (name, start, length, reversed) in [("secure", 10, 65, true), ("legacy-signed", 1, 52, false)] {
            let order = reversed ? "tac" : "cat"
            let run = try await sandbox.shell(
                """
                python3 -m zipfile -e "$1" . && tail -c +\(start) app.dat | head -c \(length) >command || exit
                numbers=$(tail -c 64 app.dat | od -An -v -tx1 -w1 | \(order) | tr -d ' \\n')
                first=$(echo "$numbers" | cut -c 1-64) second=$(echo "$numbers" | cut -c 65-128)
                \(reversed ? "r=$second s=$first" : "r=$first s=$second")
                printf 'asn1=SEQUENCE:sig\\n[sig]\\nr=INTEGER:0x%s\\ns=INTEGER:0x%s\\n' $r $s >signature.cnf
                openssl asn1parse -genconf signature.cnf -noout -out signature.der
                openssl dgst -sha256 -verify "$2" -signature signature.der command
                """, Self.path(name), Self.key)
            #expect(run.exit == 0 && run.out.contains("Verified OK"), "\(run.out)\(run.err)")
            let verified = try await sandbox.run("verify", Self.path(name), "--trust", Self.key)
            #expect(verified.exit == 0 && verified.out.contains("signed by \(Self.keyID)"), "\(verified.err)")
        }
    }

    static let refusals: [(name: String, options: [String], exit: Int32, code: String)] = [
        ("legacy", [], 77, "not-signed"), ("secure-unsigned", [], 77, "not-signed"),
        ("secure", ["--product", "lamp"], 77, "wrong-product"), ("secure", ["--hardware", "51"], 77, "wrong-hardware"),
        ("secure", ["--counter", "1"], 77, "counter-too-low"),
        ("secure", ["--signatures", "2"], 77, "too-few-signatures"),
        ("secure", ["--previous", "old.otaf"], 64, "usage"), ("secure", ["--attestation", "a.jsonl"], 64, "usage"),
    ]

    @Test("verify refuses an unsigned package, and one that does not meet an option", arguments: refusals)
    func refused(name: String, options: [String], exit: Int32, code: String) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run(
            ["verify", Self.path(name), "--trust", Self.key, "--format", "json"] + options)
        #expect(run.exit == exit, "\(run.err)")
        #expect(try self.code(run) == code)
    }

    @Test("verify refuses a package by another key, and a key whose scope does not cover packages")
    func keys() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        let other = try await sandbox.run(
            "verify", Self.path("secure"), "--trust", "release.pub.pem", "--format", "json")
        #expect(try other.exit == 77 && code(other) == "untrusted-key")
        _ = try await sandbox.shell("cp \"$1\" vendor.pub.pem && cp \"$1\" two.pub.pem", Self.key)
        for (scope, expected) in [
            ("format = mcuboot", 77), ("format = bundle", 77), ("product = lamp", 77), ("format = nordic-dfu", 0),
            ("format = mcuboot, nordic-dfu", 0),
        ] {
            try sandbox.write("vendor.pub.pem.scope", Array("\(scope)\n".utf8))
            let run = try await sandbox.run(
                "verify", Self.path("secure"), "--trust", "vendor.pub.pem", "--format", "json")
            #expect(run.exit == Int32(expected), "\(scope): \(run.err)")
            if expected != 0 { #expect(try code(run) == "key-out-of-scope") }
        }
        try sandbox.write("vendor.pub.pem.scope", Array("format = nordic-dfu\nproduct = lamp\n".utf8))
        let both = try await sandbox.run("verify", Self.path("secure"), "--trust", "vendor.pub.pem", "--format", "json")
        #expect(try both.exit == 65 && code(both) == "bad-trust-scope")
    }

    @Test("a changed image, a truncated archive and contradicting sizes are refused")
    func changed() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        for source in ["secure", "legacy"] {
            try await write(
                "changed.zip", from: source,
                adding: "printf X | dd of=app.bin bs=1 seek=9 conv=notrunc 2>/dev/null", to: sandbox)
            let run = try await sandbox.run("verify", "changed.zip", "--trust", Self.key, "--format", "json")
            #expect(try run.exit == 77 && code(run) == "digest-mismatch", "\(run.err)")
            let seen = try await sandbox.run("inspect", "changed.zip", "--trust", Self.key)
            #expect(seen.exit == 0 && seen.out.contains("DOES NOT MATCH the image"), "\(seen.out)")
            let signed = try await sandbox.run(
                "sign", "changed.zip", "--key", "release.pem", "--product", "lamp", "--version", "1.0.0", "--format",
                "json")
            #expect(try signed.exit == 77 && code(signed) == "digest-mismatch" && !sandbox.exists("changed.zip.otaf"))
        }
        try await write("long.zip", adding: "printf X >>app.bin", to: sandbox)
        let long = try await sandbox.run("verify", "long.zip", "--trust", Self.key, "--format", "json")
        #expect(try long.exit == 65 && code(long) == "package-file-mismatch", "\(long.err)")
        try sandbox.write("cut.zip", Array(try sandbox.read("long.zip").dropLast(5)))
        let cut = try await sandbox.run("verify", "cut.zip", "--trust", Self.key, "--format", "json")
        #expect(try cut.exit == 65 && code(cut) == "truncated-archive", "\(cut.err)")
    }

    static let manifests: [(manifest: String, code: String)] = [
        (#"{"manifest": {}}"#, "bad-package-manifest"),
        (#"{"manifest": {"dfu_version": 0.5}}"#, "bad-package-manifest"),
        (#"{"manifest": {"modem": {"bin_file": "app.bin", "dat_file": "app.dat"}}}"#, "bad-package-manifest"),
        (#"{"manifest": {"application": {"bin_file": "app.bin"}}}"#, "bad-package-manifest"),
        (#"{"manifest": {"application": {"bin_file": "app.bin", "dat_file": "no.dat"}}}"#, "missing-package-file"),
        (#"{"manifest": {"application": {"bin_file": "app.dat", "dat_file": "app.dat"}}}"#, "bad-package-manifest"),
        (#"{"manifest": {"bootloader": {"bin_file": "app.bin", "dat_file": "app.dat"}}}"#, "package-file-mismatch"),
        (
            #"{"manifest": {"dfu_version": 0.5, "application": {"bin_file": "app.bin", "dat_file": "app.dat"}}}"#,
            "bad-init-packet"
        ),
        // Two programs could read different members.
        (
            #"{"manifest": {"application": {"bin_file": "app.bin", "dat_file": "app.dat"}}, "manifest": {}}"#,
            "bad-package-manifest"
        ),
        (
            #"{"manifest": {"application": {"bin_file": "app.bin", "dat_file": "app.dat"}}, "files": []}"#,
            "bad-package-manifest"
        ),
        (#"{"manifest": 1, "files": []}"#, "bad-package-manifest"),
    ]

    @Test("a package with a wrong manifest is refused", arguments: manifests)
    func manifest(manifest: String, code: String) async throws {
        let sandbox = try Sandbox()
        try await write("dfu.zip", manifest: manifest, to: sandbox)
        let run = try await sandbox.run("inspect", "dfu.zip", "--format", "json")
        #expect(run.exit == 65, "\(run.err)")
        #expect(try self.code(run) == code, "\(run.err)")
    }

    @Test(
        "a package with an entry outside its folder is refused",
        arguments: ["..|evil", "|etc|evil", "a|..|..|evil", "a\\evil"])
    func unsafeNames(name: String) async throws {
        let sandbox = try Sandbox()
        try await write("dfu.zip", adding: "echo x >'\(name)'", to: sandbox)
        let run = try await sandbox.run("inspect", "dfu.zip", "--format", "json")
        #expect(try run.exit == 65 && code(run) == "unsafe-package-name", "\(run.err)")
    }

    // MARK: sign and push

    @Test(
        "sign makes a bundle around a package; verify checks both, and push refuses them with the name of the protocol")
    func bundles() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        for (source, title) in [("legacy", "Nordic Legacy DFU"), ("secure", "Nordic Secure DFU")] {
            try await write("dfu.zip", from: source, to: sandbox)
            let missing = try await sandbox.run("sign", "dfu.zip", "--key", "release.pem", "--format", "json")
            #expect(try missing.exit == 64 && code(missing) == "product-required", "\(missing.err)")
            let signed = try await sandbox.run(
                "sign", "dfu.zip", "--key", "release.pem", "--product", "demo", "--version", "1.4.0", "--force",
                "--format", "json")
            #expect(try signed.exit == 0 && signed.json().bundle?.image_format?.string == "nordic-dfu", "\(signed.err)")
            let verified = try await sandbox.run(
                "verify", "dfu.zip.otaf", "--trust", "release.pub.pem", "--product", "demo", "--format", "json")
            let json = try verified.json()
            #expect(verified.exit == 0 && json.bundle?.version?.string == "1.4.0", "\(verified.err)")
            #expect(json.package?.sections?[0]?.digest_valid?.bool == true)
            let text = try await sandbox.run("verify", "dfu.zip.otaf", "--trust", "release.pub.pem")
            #expect(text.out.contains("contains a package for \(title)"), "\(text.out)")
            let seen = try await sandbox.run("inspect", "dfu.zip.otaf", "--trust", "release.pub.pem")
            #expect(
                seen.exit == 0 && seen.out.contains("Package: Part") && seen.out.contains("Verified"), "\(seen.out)")
            let product = try await sandbox.run(
                "verify", "dfu.zip.otaf", "--trust", "release.pub.pem", "--product", "other", "--format", "json")
            #expect(try product.exit == 77 && code(product) == "wrong-product")
            for file in ["dfu.zip", "dfu.zip.otaf"] {
                let pushed = try await sandbox.run(
                    "push", file, "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", "--format", "json")
                #expect(try pushed.exit == 77 && code(pushed) == "package-not-pushed", "\(pushed.err)")
                #expect(pushed.err.contains(title) && pushed.err.contains("does not send yet"), "\(pushed.err)")
            }
        }
    }

    @Test("a signature of another machine for a package is attached, and verify accepts the bundle")
    func detached() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        try await write("dfu.zip", to: sandbox)
        let manifest = try await sandbox.run(
            "sign", "dfu.zip", "--to-sign", "dfu.tosign", "--product", "demo", "--version", "1.4.0")
        #expect(manifest.exit == 0, "\(manifest.err)")
        _ = try await sandbox.openssl(
            "pkeyutl", "-sign", "-rawin", "-in", "dfu.tosign", "-inkey", "release.pem", "-out", "dfu.sig")
        let signed = try await sandbox.run(
            "sign", "dfu.zip", "--manifest", "dfu.tosign", "--signature", "dfu.sig", "--public-key", "release.pub.pem")
        #expect(signed.exit == 0, "\(signed.err)")
        let verified = try await sandbox.run("verify", "dfu.zip.otaf", "--trust", "release.pub.pem")
        #expect(verified.exit == 0 && verified.out.contains("Nordic Secure DFU"), "\(verified.err)")
    }

    @Test("verify refuses a signed bundle whose image is not a package, although its manifest says so")
    func falseFormat() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        // The manifest of a raw archive without manifest.json gets the format byte of a package.
        _ = try await sandbox.shell("echo x >x && python3 -m zipfile -c plain.zip x")
        try await sandbox.run(
            "sign", "plain.zip", "--raw", "--to-sign", "plain.tosign", "--product", "demo", "--version", "1.4.0")
        var manifest = try sandbox.read("plain.tosign")
        manifest[5] = 3
        try sandbox.write("plain.tosign", manifest)
        _ = try await sandbox.openssl(
            "pkeyutl", "-sign", "-rawin", "-in", "plain.tosign", "-inkey", "release.pem", "-out", "plain.sig")
        let signed = try await sandbox.run(
            "sign", "plain.zip", "--manifest", "plain.tosign", "--signature", "plain.sig", "--public-key",
            "release.pub.pem")
        #expect(signed.exit == 0, "\(signed.err)")
        for words in [["verify"], ["push", "--device", "sim:?pace=virtual"]] {
            let run = try await sandbox.run(
                words + ["plain.zip.otaf", "--trust", "release.pub.pem", "--format", "json"])
            #expect(try run.exit == 65 && code(run) == "bad-package-manifest", "\(run.err)")
        }
        let seen = try await sandbox.run("inspect", "plain.zip.otaf", "--trust", "release.pub.pem")
        #expect(seen.exit == 0 && seen.err.contains("malformed"), "\(seen.err)")
    }
}

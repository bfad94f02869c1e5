import FoundationEssentials
import Testing

/// MCUboot images on the command line: sign, verify, inspect and packages.
@Suite("MCUboot images: sign, verify, inspect and packages") struct MCUbootTests {
    static let sample = Sandbox.sample("acme-beacon-1.1.0.mcuboot.bin")
    static let key = Sandbox.sample("mcuboot-sample-key.pub.pem")

    /// Makes the key pair `release` and the image `fw.signed.bin`.
    private func signed(_ sandbox: Sandbox, _ options: [String] = []) async throws {
        if !sandbox.exists("release.pem") { #expect(try await sandbox.run("keygen", "release").exit == 0) }
        try sandbox.write("fw.bin", Sandbox.image(3000))
        let run = try await sandbox.run(
            [
                "sign", "--as", "mcuboot", "fw.bin", "--key", "release.pem", "--header-size", "0x200", "--pad-header",
                "--version", "1.4.0+7",
            ] + options)
        #expect(run.exit == 0, "\(run.err)")
    }

    // MARK: sign

    @Test("sign --as mcuboot writes an image with header, security counter and signature")
    func signs() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        try sandbox.write("fw.bin", Sandbox.image(3000))
        let words = [
            "sign", "--as", "mcuboot", "fw.bin", "--key", "release.pem", "--version", "1.4.0+7",
            "--header-size", "0x200", "--pad-header", "--security-counter", "auto", "--slot-size", "0x8000",
        ]
        let json = try await sandbox.run(words + ["--format", "json"]).json()
        #expect(json.members == ["command", "exit", "image", "ok", "output", "schema"] && !json.holdsNull)
        #expect(json.output?.string == "fw.signed.bin")
        #expect(json.image?.version?.string == "1.4.0+7" && json.image?.format?.string == "mcuboot")
        #expect(json.image?.security_counter?.number == Double(1 << 24 + 4 << 16))
        #expect(try sandbox.read("fw.signed.bin").count == 0x200 + 3000 + 12 + 144)
        #expect(try await sandbox.run(words).exit == 73)
    }

    static let misfits: [(options: [String], message: String)] = [
        (["--as", "mcuboot"], "--version"),
        (["--as", "mcuboot", "--version", "1.0.0"], "--header-size"),
        (["--as", "mcuboot", "--version", "1.0.0-rc.1", "--header-size", "32"], "--version"),
        (["--as", "mcuboot", "--version", "256.0", "--header-size", "32"], "--version"),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "31"], "--header-size"),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "+32"], "--header-size"),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "--pad"], "--slot-size"),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "--confirm"], "--slot-size"),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "--align", "3"], "--align"),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "--erased-val", "1"], "--erased-val"),
        (
            ["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "--security-counter", "x"],
            "--security-counter"
        ),
        (
            ["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "--dependencies", "(1, 1.0"],
            "--dependencies"
        ),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "--product", "demo"], "--product"),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "--counter", "1"], "--security-counter"),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "--key", "release.pem"], "--key once"),
        (["--as", "mcuboot", "--version", "1.0.0", "--header-size", "32", "-o", "out.hex"], "objcopy"),
        (["--version", "1.0.0", "--product", "demo", "--pad"], "--as mcuboot"),
        (["--version", "1.0.0", "--product", "demo", "--security-counter", "1"], "--counter"),
        (["--as", "uf2"], "uf2"),
    ]

    @Test("sign refuses options that contradict each other or are missing, and names the option", arguments: misfits)
    func refusesWhatDoesNotFitTogether(options: [String], message: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        try sandbox.write("fw.bin", Sandbox.image(100))
        let run = try await sandbox.run(["sign", "fw.bin", "--key", "release.pem"] + options)
        #expect(run.exit == 64 && run.err.contains(message), "\(run.err)")
        #expect(try sandbox.names().contains { $0.hasPrefix("fw.") && $0 != "fw.bin" || $0 == "out.hex" } == false)
    }

    @Test("sign refuses an image that is too large for its slot, has no empty header, or is already signed")
    func refusesAnImageThatDoesNotFit() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        try sandbox.write("fw.bin", Sandbox.image(3000))
        let words = [
            "sign", "--as", "mcuboot", "fw.bin", "--key", "release.pem", "--version", "1", "--header-size", "32",
        ]
        let code = { (run: Run) in try run.json().error?.code?.string }
        let slot = try await sandbox.run(words + ["--pad-header", "--slot-size", "3000", "--format", "json"])
        #expect(try slot.exit == 65 && code(slot) == "slot-too-small")
        let room = try await sandbox.run(words + ["--format", "json"])
        #expect(try room.exit == 65 && code(room) == "header-not-empty")
        let again = try await sandbox.run(
            [
                "sign", "--as", "mcuboot", Self.sample, "--key", "release.pem", "--version", "1", "--header-size", "32",
                "-o", "x.bin", "--format", "json",
            ])
        #expect(try again.exit == 64 && code(again) == "already-an-image")
    }

    // MARK: verify and inspect

    @Test(
        "verify accepts a signed MCUboot image and compares its security counter",
        arguments: [[], ["--pure"], ["--pad", "--slot-size", "0x8000"]])
    func verifies(options: [String]) async throws {
        let sandbox = try Sandbox()
        try await signed(sandbox, ["--security-counter", "3"] + options)
        let run = try await sandbox.run("verify", "fw.signed.bin", "--trust", "release.pub.pem", "--format", "json")
        #expect(run.exit == 0, "\(run.err)")
        let json = try run.json()
        #expect(json.members == ["command", "exit", "images", "ok", "schema"] && !json.holdsNull)
        let image = json.images?[0]?.image
        #expect(image?.version?.string == "1.4.0+7" && image?.mcuboot?.signature?.valid?.bool == true)
        #expect(image?.mcuboot?.checked?.array?.count == 2)
        for (counter, exit) in [("3", 0), ("4", 77)] as [(String, Int32)] {
            #expect(
                try await sandbox.run("verify", "fw.signed.bin", "--trust", "release.pub.pem", "--counter", counter)
                    .exit == exit)
        }
        #expect(
            try await sandbox.run("verify", "fw.signed.bin", "--trust", "release.pub.pem", "--product", "demo").exit
                == 77)
    }

    @Test("verify of an MCUboot image lists the checks it made and the fields it did not check")
    func saysWhatWasNotChecked() async throws {
        let sandbox = try Sandbox()
        let text = try await sandbox.run("verify", Self.sample, "--trust", Self.key)
        #expect(
            text.exit == 0 && text.out.contains("Checked: SHA256 of header")
                && text.out.contains("Checked: ED25519 signature"))
        #expect(text.out.contains("Not checked: product and hardware"))
    }

    @Test("verify reports an untrusted key, a wrong signature and a wrong digest with different codes")
    func refusesByCode() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "other")
        let bytes = try Array(Data(contentsOf: URL(filePath: Self.sample)))
        var body = bytes
        body[0x300] ^= 1
        var signature = bytes
        signature[bytes.count - 1] ^= 1
        try sandbox.write("body.bin", body)
        try sandbox.write("signature.bin", signature)
        for (file, trust, exit, code) in [
            (Self.sample, "other.pub.pem", 77, "untrusted-key"), ("signature.bin", Self.key, 77, "bad-signature"),
            ("body.bin", Self.key, 65, "bad-image-digest"),
        ] as [(String, String, Int32, String)] {
            let run = try await sandbox.run("verify", file, "--trust", trust, "--format", "json")
            #expect(try run.exit == exit && run.json().error?.code?.string == code, "\(run.out)")
        }
    }

    @Test("inspect shows an MCUboot image without a trusted key, and verifies it with one")
    func inspectNeedsNoTrust() async throws {
        let sandbox = try Sandbox()
        let json = try await sandbox.run("inspect", Self.sample, "--format", "json").json()
        #expect(json.verified?.bool == false && json.reason?.string?.contains("no key is trusted") == true)
        let mcuboot = try #require(json.image?.mcuboot)
        #expect(mcuboot.header_size?.number == 0x200 && mcuboot.protected_tlvs?[0]?.name?.string == "SEC_CNT")
        #expect(mcuboot.tlvs?.array?.compactMap { $0.name?.string } == ["SHA256", "KEYHASH", "ED25519"])
        #expect(mcuboot.signature?.valid == nil && mcuboot.signature?.key_hash?.string?.count == 64 && !json.holdsNull)
        let trusted = try await sandbox.run("inspect", Self.sample, "--trust", Self.key)
        #expect(
            trusted.exit == 0 && trusted.out.contains("Verified against") && trusted.out.contains("SEC_CNT: 02000000"))
    }

    @Test("verify and inspect read an MCUboot image from an Intel HEX file")
    func intelHexOfAnImage() async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.hex", Self.intelHex(Array(Data(contentsOf: URL(filePath: Self.sample)))))
        #expect(try await sandbox.run("verify", "fw.hex", "--trust", Self.key).exit == 0)
        let json = try await sandbox.run("inspect", "fw.hex", "--trust", Self.key, "--format", "json").json()
        #expect(json.verified?.bool == true && json.image?.version?.string == "1.1.0")
    }

    private static func intelHex(_ bytes: [UInt8]) -> [UInt8] {
        var text = ""
        func record(_ address: Int, _ type: UInt8, _ data: ArraySlice<UInt8>) {
            let fields = [UInt8(data.count), UInt8(address >> 8 & 0xFF), UInt8(address & 0xFF), type] + data
            let sum = fields.reduce(UInt8(0)) { $0 &+ $1 }
            text += ":" + (fields + [0 &- sum]).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() + "\n"
        }
        for start in stride(from: 0, to: bytes.count, by: 16) {
            record(start, 0, bytes[start..<min(start + 16, bytes.count)])
        }
        record(0, 1, [])
        return Array(text.utf8)
    }

    // MARK: Packages

    /// Packs files as the nRF Connect SDK does, with Python's zipfile.
    private func pack(_ sandbox: Sandbox, _ manifest: String, _ files: [String: String]) async throws {
        try sandbox.write("manifest.json", Array(manifest.utf8))
        var names = ["manifest.json=manifest.json"]
        names += files.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        let script = """
            python3 - \(names.joined(separator: " ")) <<'END' && exec "$0" --version
            import sys, zipfile
            with zipfile.ZipFile("fw.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                for pair in sys.argv[1:]:
                    name, path = pair.split("=", 1)
                    archive.write(path, name)
            END
            """
        #expect(try await sandbox.shell(script).exit == 0)
    }

    private static let twoImages = """
        {"format-version": 1, "time": 1, "name": "demo", "files": [
          {"type": "application", "board": "nrf5340dk", "image_index": "0", "version_MCUBOOT": "1.4.0+7", "file": "app.bin"},
          {"type": "application", "image_index": 1, "file": "net.bin"}]}
        """

    @Test("verify accepts a package of two images only if both are signed by a trusted key")
    func aPackageOfTwoImages() async throws {
        let sandbox = try Sandbox()
        try await signed(sandbox)
        try await pack(sandbox, Self.twoImages, ["app.bin": "fw.signed.bin", "net.bin": Self.sample])
        let trust = ["--trust", "release.pub.pem", "--trust", Self.key]
        let json = try await sandbox.run(["verify", "fw.zip", "--format", "json"] + trust).json()
        #expect(json.images?.array?.map { $0.image_number?.number } == [0, 1])
        #expect(json.images?[0]?.name?.string == "app.bin" && json.images?[0]?.board?.string == "nrf5340dk")
        #expect(json.images?[1]?.image?.version?.string == "1.1.0" && !json.holdsNull)
        let text = try await sandbox.run(["inspect", "fw.zip"] + trust)
        #expect(text.exit == 0 && text.out.contains("Verified against") && text.out.contains("net.bin"))
        // One trusted image of two is not enough.
        let half = try await sandbox.run("verify", "fw.zip", "--trust", Self.key, "--format", "json")
        #expect(try half.exit == 77 && half.json().error?.code?.string == "untrusted-key")
        #expect(try await sandbox.run("inspect", "fw.zip", "--format", "json").json().verified?.bool == false)
    }

    @Test(
        "verify refuses a package with a malformed or contradictory manifest",
        arguments: [
            (#"{"files": []}"#, "bad-package-manifest"), ("[]", "bad-package-manifest"), ("{", "bad-package-manifest"),
            (#"{"manifest": {"application": {"bin_file": "app.bin"}}}"#, "bad-package-manifest"),
            (#"{"files": [{"file": "other.bin"}]}"#, "missing-package-file"),
            (#"{"files": [{"file": "app.bin", "size": 1}]}"#, "package-file-mismatch"),
            (#"{"files": [{"file": "app.bin", "version_MCUBOOT": "1.4.0"}]}"#, "package-file-mismatch"),
            (#"{"files": [{"file": "app.bin", "image_index": "-1"}]}"#, "bad-package-manifest"),
            (#"{"files": [{"file": "app.bin"}, {"file": "app.bin", "image_index": 0}]}"#, "duplicate-image"),
            (#"{"files": [{"file": "app.bin"}, {"file": "app.bin", "image_index": 1}]}"#, "bad-package-manifest"),
            (#"{"files": [{"file": "manifest.json"}]}"#, "wrong-image-format"),
            // Two programs could read different members.
            (#"{"files": [{"file": "app.bin"}], "files": [{"file": "other.bin"}]}"#, "bad-package-manifest"),
            (#"{"files": [{"file": "app.bin", "size": "1"}]}"#, "bad-package-manifest"),
            (#"{"files": [{"file": "app.bin", "board": 1}]}"#, "bad-package-manifest"),
        ])
    func refusesAPackage(manifest: String, code: String) async throws {
        let sandbox = try Sandbox()
        try await signed(sandbox)
        try await pack(sandbox, manifest, ["app.bin": "fw.signed.bin"])
        let run = try await sandbox.run("verify", "fw.zip", "--trust", "release.pub.pem", "--format", "json")
        #expect(try run.exit == 65 && run.json().error?.code?.string == code, "\(run.out)")
    }

    @Test("verify refuses a package with a file that its manifest does not list")
    func unlistedFile() async throws {
        let sandbox = try Sandbox()
        try await signed(sandbox)
        let manifest = #"{"files": [{"file": "app.bin", "board": null, "image_index": "0"}]}"#
        let words = ["verify", "fw.zip", "--trust", "release.pub.pem", "--format", "json"]
        try await pack(sandbox, manifest, ["app.bin": "fw.signed.bin"])
        #expect(try await sandbox.run(words).exit == 0)
        for (name, code) in [("net.bin", "bad-package-manifest"), ("sub/app.bin", "unsafe-package-name")] {
            try await pack(sandbox, manifest, ["app.bin": "fw.signed.bin", name: Self.sample])
            let run = try await sandbox.run(words)
            #expect(try run.exit == 65 && run.json().error?.code?.string == code, "\(name): \(run.out)")
        }
    }
}

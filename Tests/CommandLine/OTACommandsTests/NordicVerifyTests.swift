import OTATestSupport
import Testing

@Suite("The output of commands for Nordic DFU packages, and bundles of them") struct NordicVerifyTests {
    private static let key = Sandbox.repository("Fuzz/Corpus/keys/ecdsa-p256-public")

    private static func path(_ name: String) -> String {
        Sandbox.repository("Tests/Support/nordic-packages/\(name).zip")
    }

    private func code(_ run: Run) throws -> String? { try run.json().error?.code?.string }

    /// Signs a package into the bundle `dfu.zip.otaf`.
    private func sign(_ name: String, _ options: String..., in sandbox: Sandbox) async throws -> Run {
        _ = try await sandbox.shell("cp \"$1\" dfu.zip && chmod u+w dfu.zip", Self.path(name))
        return try await sandbox.run(
            ["sign", "dfu.zip", "--key", "release.pem", "--product", "demo", "--version", "1.4.0", "--force"]
                + ["--format", "json"] + options)
    }

    static let unchecked: [(name: String, lines: [String], others: [String])] = [
        (
            "legacy-signed",
            ["the part (application): only manifest.json", "the combination of the images", "product: a Nordic"],
            ["the sizes of"]
        ),
        // The signed application of the same package, with another name of the part in the manifest.
        ("hostile/relabelled", ["the part (bootloader): only manifest.json", "the combination of the images"], []),
        // A package without its SoftDevice and bootloader.
        ("hostile/dropped", ["the combination of the images", "product: a Nordic"], ["the part ("]),
        ("secure-all", ["the combination of the images", "product: a Nordic"], ["the part (", "the sizes of"]),
    ]

    @Test("verify lists what no signature covers", arguments: unchecked)
    func listed(name: String, lines: [String], others: [String]) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("verify", Self.path(name), "--trust", Self.key)
        #expect(run.exit == 0, "\(run.err)")
        for line in lines { #expect(run.out.contains("Not checked: \(line)"), "\(line): \(run.out)") }
        for line in others { #expect(!run.out.contains("Not checked: \(line)"), "\(line): \(run.out)") }
        let json = try await sandbox.run("verify", Self.path(name), "--trust", Self.key, "--format", "json").json()
        #expect(json.package?.unchecked?.array?.count == 2)
    }

    @Test("inspect lists the sizes and the hardware of an unsigned legacy package as not checked")
    func unsigned() async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run("inspect", Self.path("legacy-both"), "--format", "json")
        let section = try run.json().package?.sections?[0]
        let list = section?.unchecked?.array?.compactMap { $0.string } ?? []
        for text in ["hardware", "the part (SoftDevice and bootloader)", "the sizes of SoftDevice and bootloader"] {
            #expect(list.contains { $0.contains(text) }, "\(text): \(list)")
        }
        #expect(section?.notes?.array?.compactMap { $0.string } == ["the init packet is not signed"])
    }

    @Test("the signature of a bundle covers the whole package, and verify lists the remarks about the package")
    func bundle() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        let signed = try await sign("legacy-both", in: sandbox)
        #expect(signed.exit == 0, "\(signed.err)")
        for command in ["verify", "inspect"] {
            let run = try await sandbox.run(command, "dfu.zip.otaf", "--trust", "release.pub.pem")
            #expect(run.exit == 0 && run.out.contains("the init packet is not signed"), "\(run.err)\(run.out)")
            #expect(!run.out.contains("Not checked") && !run.out.contains("manifest.json"), "\(run.out)")
        }
        let base = try await sandbox.run("inspect", "dfu.zip.otaf", "--base", "dfu.zip.otaf", "--format", "json")
        #expect(try base.exit == 64 && code(base) == "usage" && base.err.contains("Nordic DFU package"), "\(base.err)")
    }

    @Test("verify warns of a packet for tests, and inspect notes an application for another chip")
    func notes() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        #expect(try await sign("hostile/debug", in: sandbox).exit == 0)
        let verified = try await sandbox.run("verify", "dfu.zip.otaf", "--trust", "release.pub.pem")
        #expect(verified.exit == 0 && verified.err.contains("app.bin is for tests"), "\(verified.err)")
        #expect(verified.out.contains("Note: debug"), "\(verified.out)")
        let external = try await sandbox.run("inspect", Self.path("hostile/external"))
        #expect(external.exit == 0 && external.out.contains("for another chip"), "\(external.out)")
        #expect(!external.out.contains("Not checked: the application"), "\(external.out)")
    }

    @Test("sign and verify refuse a bundle for other hardware than its package")
    func hardware() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        let refused = try await sign("legacy", "--hardware", "1", in: sandbox)
        #expect(try refused.exit == 77 && code(refused) == "wrong-hardware", "\(refused.err)")
        #expect(!sandbox.exists("dfu.zip.otaf"))
        let signed = try await sign("legacy", "--hardware", "1,52840", in: sandbox)
        #expect(signed.exit == 0, "\(signed.err)")
        let verify = ["verify", "dfu.zip.otaf", "--trust", "release.pub.pem", "--format", "json", "--hardware"]
        #expect(try await sandbox.run(verify + ["52840"]).exit == 0)
        // The bundle lists this revision, but its package is for another one.
        let other = try await sandbox.run(verify + ["1"])
        #expect(try other.exit == 77 && code(other) == "wrong-hardware", "\(other.err)")
    }

    @Test("--previous refuses a package as a file that is not a bundle")
    func previous() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        #expect(try await sign("legacy", in: sandbox).exit == 0)
        for words in [
            ["verify", "dfu.zip.otaf", "--trust", "release.pub.pem"],
            ["sign", "dfu.zip", "--key", "release.pem", "--product", "demo", "--version", "1.5.0", "--force"],
        ] {
            let run = try await sandbox.run(words + ["--previous", Self.path("legacy"), "--format", "json"])
            #expect(try run.exit == 64 && code(run) == "usage", "\(run.err)")
            #expect(run.err.contains("is not a bundle"), "\(run.err)")
        }
    }

    @Test("the hint of push names the tool for the protocol, and its command extracts the package from a bundle")
    func extraction() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        let device = ["--device", "sim:?pace=virtual", "--trust", "release.pub.pem"]
        for (name, tool, other) in [("legacy", "adafruit-nrfutil", " nrfutil"), ("secure", " nrfutil", "adafruit")] {
            #expect(try await sign(name, in: sandbox).exit == 0)
            for file in ["dfu.zip", "dfu.zip.otaf"] {
                let pushed = try await sandbox.run(["push", file] + device)
                #expect(pushed.exit == 77 && pushed.err.contains(tool) && !pushed.err.contains(other), "\(pushed.err)")
            }
            let package = try sandbox.read("dfu.zip")
            let command = "tail -c \(package.count) dfu.zip.otaf >package.zip"
            #expect(try await sandbox.run(["push", "dfu.zip.otaf"] + device).err.contains(command))
            _ = try await sandbox.shell(command)
            #expect(try sandbox.read("package.zip") == package)
        }
    }

    @Test("an image of more than 16 MiB is refused before it is unpacked")
    func largeImage() async throws {
        let sandbox = try Sandbox()
        let made = try await sandbox.shell(
            """
            python3 - "$1" <<'END'
            import sys, zipfile
            files = zipfile.ZipFile(sys.argv[1])
            with zipfile.ZipFile('large.zip', 'w', zipfile.ZIP_DEFLATED) as archive:
                for name in files.namelist():
                    archive.writestr(name, bytes((16 << 20) + 1) if name == 'app.bin' else files.read(name))
            END
            """, Self.path("legacy"))
        #expect(made.exit == 0, "\(made.err)")
        let run = try await sandbox.run("inspect", "large.zip", "--format", "json")
        #expect(try run.exit == 65 && code(run) == "package-file-mismatch", "\(run.err)")
        #expect(run.err.contains("the limit is 16777216"), "\(run.err)")
    }

    @Test("release publish refuses a bundle of a Nordic DFU package, because no gateway can send it")
    func publish() async throws {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        #expect(try await sign("secure", in: sandbox).exit == 0)
        let run = try await sandbox.run(
            "release", "publish", "dfu.zip.otaf", "--key", "release.pem", "--trust", "release.pub.pem", "--store",
            "fleet.db", "--format", "json")
        #expect(try run.exit == 77 && code(run) == "package-not-pushed", "\(run.err)")
        #expect(!sandbox.exists("fleet.db"))
    }
}

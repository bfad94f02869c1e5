import SystemPackage
import Testing

@Suite("Command push with encoded images") struct EncodedPushTests {
    /// Makes the key pair `release`, the bundles 1.0.0.otaf, 1.0.1.otaf and 1.1.0.otaf of the sample gateway, and the virtual device `demo`
    /// with version 1.0.0.
    private static func sandbox() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.run("keygen", "release")
        for version in ["1.0.0", "1.0.1", "1.1.0"] {
            let run = try await sandbox.run(
                "sign", Sandbox.sample("acme-gateway-\(version).bin"), "--key", "release.pem", "--product",
                "acme-gateway",
                "--version", version, "-o", "\(version).otaf")
            #expect(run.exit == 0, "\(run.err)")
        }
        let first = try await sandbox.push(bundle: "1.0.0.otaf")
        #expect(first.exit == 0, "\(first.err)")
        return sandbox
    }

    /// The arguments of a push of version 1.1.0.
    private static let push = [
        "push", "1.1.0.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", "--format", "json",
        "--progress", "none",
    ]

    @Test("push --base sends the difference from the running image, and reports the base")
    func delta() async throws {
        let sandbox = try await Self.sandbox()
        let digest = try await sandbox.openssl("dgst", "-sha256", "-r", Sandbox.sample("acme-gateway-1.0.0.bin"))
        let expected = try await sandbox.run("inspect", "1.1.0.otaf", "--base", "1.0.0.otaf", "--format", "json").json()
        let json = try await sandbox.run(Self.push + ["--base", "1.0.0.otaf"]).json()
        let transfer = try #require(json.transfer)
        #expect(json.outcome?.string == "confirmed" && json.device?.running_version?.string == "1.1.0")
        #expect(transfer.encoding?.string == "lzma2" && transfer.base?.version?.string == "1.0.0")
        #expect(transfer.base?.sha256?.string == String(decoding: digest.prefix(64), as: UTF8.self))
        #expect(transfer.encoded_bytes?.number == expected.encodings?[1]?.bytes?.number)
        #expect(transfer.sent_bytes?.number == transfer.encoded_bytes?.number && transfer.image_bytes?.number == 88280)
        #expect(transfer.plain_because == nil && transfer.base_refused == nil)
        let (link, image) = (transfer.link_bytes_per_second?.number ?? 0, transfer.bytes_per_second?.number ?? 0)
        #expect(link > 0 && image > 10 * link)
    }

    @Test("push without a base sends the image compressed, and --plain sends it plain")
    func withoutBase() async throws {
        let sandbox = try await Self.sandbox()
        let compressed = try #require(try await sandbox.run(Self.push).json().transfer)
        #expect(compressed.encoding?.string == "lzma2" && compressed.base == nil)
        #expect((compressed.encoded_bytes?.number).map { (44_000...56_000).contains($0) } == true)
        let plain = try #require(try await sandbox.push(bundle: "1.0.1.otaf").json().transfer)
        #expect(plain.encoding?.string == "lzma2")
        try await sandbox.run("simulate", "remove", "demo")
        let asked = try #require(try await sandbox.run(Self.push + ["--plain"]).json().transfer)
        #expect(asked.encoding?.string == "plain" && asked.plain_because?.string == "asked")
        #expect(asked.sent_bytes?.number == 88280 && asked.encoded_bytes == nil)
    }

    @Test("the bases come from --base, else from OTAFLASH_BASES, else from the user's data folder")
    func places() async throws {
        for (words, variables) in [
            (["--base", "releases"], ["OTAFLASH_BASES": "/missing"]), ([], ["OTAFLASH_BASES": "missing:releases"]),
            ([], ["XDG_DATA_HOME": "DATA"]), ([], [:]),
        ] as [([String], [String: String])] {
            let sandbox = try await Self.sandbox()
            let home = sandbox.home.string
            let folder = variables["XDG_DATA_HOME"] == nil ? "\(home)/.local/share" : sandbox.path("data")
            _ = try await sandbox.shell(
                "mkdir -p releases \(folder)/otaflash/bases; cp 1.0.0.otaf 1.0.1.otaf releases; "
                    + "cp 1.0.0.otaf \(folder)/otaflash/bases")
            let environment = variables.mapValues { $0 == "DATA" ? folder : $0 }
            let run = try await sandbox.run(Self.push + words, env: environment)
            let transfer = try run.json().transfer
            #expect(
                transfer?.base?.version?.string == "1.0.0" && transfer?.base_refused == nil, "\(words) \(variables)")
            #expect(
                run.err.contains("no base from missing") == variables["OTAFLASH_BASES"]?.hasPrefix("missing") ?? false)
        }
    }

    @Test("a base that the device does not run is refused, and the image is sent compressed")
    func wrongBase() async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.run(Self.push + ["--base", Sandbox.sample("acme-gateway-1.0.1.bin")])
        let transfer = try #require(try run.json().transfer)
        #expect(run.exit == 0 && transfer.base_refused?.number == 1 && transfer.base == nil)
        #expect(transfer.encoding?.string == "lzma2")
    }

    @Test(
        "a device without a readable base gets the image compressed, and a device without encodings gets it plain",
        arguments: [("base", "lzma2", nil), ("encodings", "plain", "not-offered")] as [(String, String, String?)])
    func without(part: String, encoding: String, reason: String?) async throws {
        let sandbox = try await Self.sandbox()
        let created = try await sandbox.run(
            "simulate", "create", "kitchen", "--product", "acme-gateway", "--version", "1.0.0", "--trust",
            "release.pub.pem", "--without", part)
        #expect(created.exit == 0, "\(created.err)")
        let run = try await sandbox.push("sim:kitchen?pace=virtual", "--base", "1.0.0.otaf", bundle: "1.1.0.otaf")
        let transfer = try #require(try run.json().transfer)
        #expect(transfer.encoding?.string == encoding && transfer.base == nil && transfer.base_refused == nil)
        #expect(transfer.plain_because?.string == reason)
    }

    @Test("an image that is not in a bundle is a base")
    func plainImage() async throws {
        let sandbox = try await Self.sandbox()
        let transfer = try await sandbox.run(Self.push + ["--base", Sandbox.sample("acme-gateway-1.0.0.bin")]).json()
            .transfer
        #expect(transfer?.base?.members == ["sha256"] && transfer?.encoding?.string == "lzma2")
    }

    @Test("a base that cannot be used is a note, and the push continues")
    func unusableBase() async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.run(
            "push", "1.1.0.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", "--base",
            "missing.otaf",
            "--base", "1.0.0.otaf")
        #expect(run.exit == 0 && run.err.contains("no base from missing.otaf"))
        #expect(run.err.contains("Delta from 1.0.0: 5.9 kB in place of 88.3 kB"), "\(run.err)")
        #expect(run.out.contains("The image was sent as the difference from 1.0.0: 5.9 kB at "), "\(run.out)")
    }

    @Test("--base and --plain cannot be used together")
    func conflict() async throws {
        let run = try await Sandbox().run("push", "fw.otaf", "--device", "sim:", "--base", "old.otaf", "--plain")
        #expect(run.exit == 64 && run.err.contains("'--base' and '--plain' cannot be used together"))
    }

    @Test("status reports the encodings of the device")
    func status() async throws {
        let sandbox = try await Self.sandbox()
        let device = try await sandbox.run("status", "--device", "sim:?pace=virtual", "--format", "json").json().device
        #expect(device?.encodings?.array?.map(\.string) == ["lzma2"] && (device?.largest_base?.number ?? 0) > 82744)
        let text = try await sandbox.run("status", "--device", "sim:?pace=virtual").out
        #expect(text.contains("lzma2: compressed, and as the difference from the running image"))
    }
}

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

    @Test("push --base sends a delta from the running image, and reports the base")
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
        #expect(run.out.contains("The image was sent as a delta from 1.0.0: 5.9 kB.\n"), "\(run.out)")
    }

    @Test("a damaged copy of the base does not hide the intact one, and a note says what to do with it")
    func damagedCopy() async throws {
        let sandbox = try await Self.sandbox()
        let made = try await sandbox.shell(
            "mkdir releases; cp 1.0.0.otaf releases/a.otaf; "
                + "printf 'xx' | dd of=releases/a.otaf bs=1 seek=50000 conv=notrunc; cp 1.0.0.otaf releases/b.otaf")
        #expect(made.exit == 0)
        for words in [["--base", "releases"], ["--base", "releases/a.otaf", "--base", "releases/b.otaf"]] {
            let run = try await sandbox.run(Self.push + words + ["--dry-run"])
            #expect(try run.json().plan?.base?.version?.string == "1.0.0", "\(words) \(run.err)")
            #expect(
                run.err.contains("releases/a.otaf: the image does not match the manifest; fetch the file again"),
                "\(run.err)")
        }
        let run = try await sandbox.run(Self.push + ["--base", "releases/a.otaf"])
        #expect(run.exit == 0 && run.err.contains("fetch the file again"), "\(run.err)")
        #expect(try run.json().transfer?.encoding?.string == "lzma2" && run.json().transfer?.base == nil)
    }

    @Test("--base and --plain cannot be used together")
    func conflict() async throws {
        let run = try await Sandbox().run("push", "fw.otaf", "--device", "sim:", "--base", "old.otaf", "--plain")
        #expect(run.exit == 64 && run.err.contains("'--base' and '--plain' cannot be used together"))
    }

    @Test("of two bases with the device's version, push uses the one that the device runs")
    func sameVersion() async throws {
        let sandbox = try await Self.sandbox()
        // 1.0.0 once more, with the bytes of 1.0.1.
        let signed = try await sandbox.run(
            "sign", Sandbox.sample("acme-gateway-1.0.1.bin"), "--key", "release.pem", "--product", "acme-gateway",
            "--version", "1.0.0", "-o", "other.otaf")
        #expect(signed.exit == 0, "\(signed.err)")
        let transfer = try await sandbox.run(Self.push + ["--base", "other.otaf", "--base", "1.0.0.otaf"]).json()
            .transfer
        #expect(transfer?.encoded_bytes?.number.map { $0 < 10_000 } == true && transfer?.base_refused == nil)
        let digest = try await sandbox.openssl("dgst", "-sha256", "-r", Sandbox.sample("acme-gateway-1.0.0.bin"))
        #expect(transfer?.base?.sha256?.string == String(decoding: digest.prefix(64), as: UTF8.self))
    }

    @Test("a base that is larger than the device accepts is reported in a note, and the image is compressed")
    func largeBase() async throws {
        let sandbox = try await Self.sandbox()
        let made = try await sandbox.shell("printf x >large.bin; truncate -s 5M large.bin")
        #expect(made.exit == 0)
        let run = try await sandbox.run(Self.push.dropLast() + ["lines", "--base", "large.bin"])
        #expect(run.exit == 0 && run.err.contains("o base from large.bin: its image has 5242880 bytes"), "\(run.err)")
        let transfer = try run.json().transfer
        #expect(transfer?.encoding?.string == "lzma2" && transfer?.base == nil && transfer?.base_refused == nil)
    }

    @Test("a named base that is not offered to the device is reported in one note, and bases of a folder are not")
    func namedBase() async throws {
        let sandbox = try await Self.sandbox()
        let signed = try await sandbox.run(
            "sign", Sandbox.sample("acme-gateway-1.0.0.bin"), "--key", "release.pem", "--product", "oven", "--version",
            "1.0.0", "-o", "oven.otaf")
        #expect(signed.exit == 0, "\(signed.err)")
        for part in ["base", "encodings"] {
            let created = try await sandbox.run(
                "simulate", "create", part, "--product", "acme-gateway", "--version", "1.0.0", "--trust",
                "release.pub.pem", "--without", part)
            #expect(created.exit == 0, "\(created.err)")
        }
        _ = try await sandbox.shell("mkdir releases; cp 1.0.1.otaf oven.otaf releases")
        for (device, words, note) in [
            (
                "demo", ["1.0.1.otaf"],
                "1.0.1.otaf: it is version 1.0.1, the device runs 1.0.0; give --base with the bundle of 1.0.0"
            ),
            ("demo", ["oven.otaf"], "oven.otaf: it is for the product oven, the device is acme-gateway"),
            ("demo", ["releases"], nil), ("demo", ["1.0.1.otaf", "1.0.0.otaf"], nil),
            ("base", ["1.0.0.otaf"], "1.0.0.otaf: the device cannot use a base, so it gets no delta"),
            ("encodings", ["1.0.0.otaf"], "1.0.0.otaf: the device does not accept encoded images"),
        ] as [(String, [String], String?)] {
            let run = try await sandbox.run(
                ["push", "1.1.0.otaf", "--device", "sim:\(device)?pace=virtual", "--trust", "release.pub.pem"]
                    + words.flatMap { ["--base", $0] } + ["--progress", "none", "--dry-run"])
            let notes = run.err.split(separator: "\n").filter { $0.contains("base") }
            #expect(notes == (note.map { ["otaflash: note: no base from \($0)"] } ?? []), "\(device) \(run.err)")
        }
        // The default paths can have images for many devices.
        let run = try await sandbox.run(
            ["push", "1.1.0.otaf", "--device", "sim:demo?pace=virtual", "--trust", "release.pub.pem", "--dry-run"]
                + ["--progress", "none"], env: ["OTAFLASH_BASES": "oven.otaf:1.0.1.otaf"])
        #expect(run.exit == 0 && run.err.isEmpty, "\(run.err)")
    }

    @Test("a push whose encoded image occupies the device for too long continues plain")
    func busyDecoder() async throws {
        let device =
            "sim:?pace=virtual&mtu=100&interval=7.5ms&seed=419356&per-event=2&drop-at=0.015&reset-at=0.565&flash=1"
        let run = try await Self.sandbox().push(device, "--base", "1.0.0.otaf", bundle: "1.1.0.otaf")
        #expect(run.exit == 0, "\(run.err)")
        let transfer = try run.json().transfer
        #expect(transfer?.encoding?.string == "lzma2" && transfer?.plain_because?.string == "no-progress", "\(run.out)")
        let text = try await Self.sandbox().run(
            "push", "1.1.0.otaf", "--device", device, "--trust", "release.pub.pem", "--base", "1.0.0.otaf")
        #expect(
            text.out.contains("in two forms: ") && text.out.contains("; the rest plain (no progress)."), "\(text.out)")
    }

    @Test("a dry run reports the encoded bytes and the base of the push")
    func dryRun() async throws {
        let sandbox = try await Self.sandbox()
        for words in [["--base", "1.0.0.otaf"], [], ["--plain"]] {
            let plan = try #require(try await sandbox.run(Self.push + words + ["--dry-run"]).json().plan)
            let sizes = try await sandbox.run("inspect", "1.1.0.otaf", "--base", "1.0.0.otaf", "--format", "json")
                .json()
                .encodings
            let expected = words == ["--plain"] ? nil : words.isEmpty ? sizes?[0] : sizes?[1]
            #expect(plan.bytes?.number == 88280 && plan.encoded_bytes?.number == expected?.bytes?.number, "\(words)")
            #expect(plan.base?.version?.string == (words.first == "--base" ? "1.0.0" : nil))
        }
        let text = try await sandbox.run(
            "push", "1.1.0.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", "--base", "1.0.0.otaf",
            "--dry-run")
        #expect(
            text.out.contains("5.9 kB to send, a delta from 1.0.0, in place of 88.3 kB."), "\(text.out)")
    }

    @Test("the hint of status for a partial upload names --base, if the device accepts a base")
    func hintOfStatus() async throws {
        let sandbox = try await Self.sandbox()
        let stopped = try await sandbox.push("sim:?pace=virtual&gone-at=0.5", bundle: "1.1.0.otaf")
        #expect(stopped.exit == 75)
        let text = try await sandbox.run("status", "--device", "sim:?pace=virtual").out
        #expect(text.contains("otaflash push BUNDLE --device 'sim:?pace=virtual' --base RUNNING_BUNDLE"), "\(text)")
    }

    @Test("the table of a push to several devices has the sent bytes and the form of the image")
    func table() async throws {
        let sandbox = try await Self.sandbox()
        for (name, without) in [("a", "base"), ("b", "encodings")] {
            let made = try await sandbox.run(
                "simulate", "create", name, "--product", "acme-gateway", "--version", "1.0.0", "--trust",
                "release.pub.pem", "--without", without)
            #expect(made.exit == 0, "\(made.err)")
        }
        let devices = ["sim:?pace=virtual", "sim:a?pace=virtual", "sim:b?pace=virtual"].flatMap { ["--device", $0] }
        let run = try await sandbox.run(
            ["push", "1.1.0.otaf", "--trust", "release.pub.pem", "--base", "1.0.0.otaf"] + devices)
        #expect(run.exit == 0, "\(run.err)")
        let rows = run.out.split(separator: "\n").map { String($0) }
        for (row, ends) in zip(rows, ["SENT", "5.9 kB", "kB", "88.3 kB"]) { #expect(row.contains(ends), "\(row)") }
        for (row, form) in zip(rows, ["FORM", "delta", "compressed", "plain"]) { #expect(row.contains(form), "\(row)") }
    }

    @Test("notes and warnings of a push to several devices name the device, also on a terminal")
    func notesOfSeveralDevices() async throws {
        let sandbox = try await Self.sandbox()
        let made = try await sandbox.run(
            "simulate", "create", "a", "--product", "acme-gateway", "--version", "1.2.0", "--trust", "release.pub.pem")
        #expect(made.exit == 0, "\(made.err)")
        let words = ["push", "1.1.0.otaf", "--trust", "release.pub.pem", "--base", "1.0.1.otaf", "--dry-run"]
        let devices = ["sim:demo?pace=virtual", "sim:a?pace=virtual"]
        let reason = "no base from 1.0.1.otaf: it is version 1.0.1, the device runs"
        let lines = [
            "\(devices[0]): \(reason) 1.0.0", "\(devices[1]): \(reason) 1.2.0",
            "\(devices[1]): version 1.1.0 is lower than 1.2.0",
        ]
        let all = words + devices.flatMap { ["--device", $0] }
        let run = try await sandbox.run(all + ["--progress", "none"])
        let (_, screen) = try await sandbox.onTerminal(all, columns: 200)
        for (place, text) in [("pipe", run.err), ("terminal", screen)] {
            for line in lines { #expect(text.contains(line), "\(place) \(line): \(text)") }
        }
    }

    @Test("status reports the encodings of the device")
    func status() async throws {
        let sandbox = try await Self.sandbox()
        let device = try await sandbox.run("status", "--device", "sim:?pace=virtual", "--format", "json").json().device
        #expect(device?.encodings?.array?.map(\.string) == ["lzma2"] && (device?.largest_base?.number ?? 0) > 82744)
        let text = try await sandbox.run("status", "--device", "sim:?pace=virtual").out
        #expect(text.contains("lzma2: compressed, and as a delta from the running image"))
    }
}

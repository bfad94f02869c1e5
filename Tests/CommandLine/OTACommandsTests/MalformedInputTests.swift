import Glibc
import OTATestSupport
import OTAUpdate
import Subprocess
import SystemPackage
import Testing

/// The tool reports the error in every malformed file, with the correct exit status.
@Suite("Malformed files") struct MalformedInputTests {
    static let bundles: [(name: String, bytes: [UInt8], code: String)] = [
        ("nothing", [], "empty-file"),
        ("one byte", [0x4F], "truncated"),
        ("another magic", Array("FATO".utf8) + [UInt8](repeating: 0, count: 200), "bad-magic"),
        ("the magic alone", Array("OTAF".utf8), "truncated"),
        ("a later version", Array("OTAF".utf8) + [9] + [UInt8](repeating: 0, count: 200), "unsupported-version"),
        (
            "a huge manifest", Array("OTAF".utf8) + [2, 0, 0xFF, 0xFF] + [UInt8](repeating: 0xFF, count: 200),
            "bad-manifest-length"
        ),
    ]

    @Test("a malformed bundle is refused with 65 and the code of its error", arguments: bundles, ["verify", "push"])
    func aBundleThatIsNone(file: (name: String, bytes: [UInt8], code: String), verb: String) async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.otaf", file.bytes)
        let device = verb == "push" ? ["--device", "sim:"] : []
        let run = try await sandbox.run([verb, "fw.otaf", "--format", "json"] + device)
        #expect(run.exit == 65)
        #expect(try run.json().error?.code?.string == file.code, "\(run.out)")
    }

    @Test("sign refuses a key file as an image")
    func aKeyIsNoFirmware() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 100)
        let run = try await sandbox.run(
            "sign", "release.pem", "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "-o", "x.otaf",
            "--format", "json")
        #expect(run.exit == 65)
        #expect(try run.json().error?.code?.string == "not-an-image")
    }

    @Test("a truncated bundle and a bundle with trailing bytes are refused")
    func aBundleThatIsCutOrLengthened() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 1000)
        let bundle = try sandbox.read("fw.otaf")
        for count in [5, 63, 64, 80, 170, bundle.count - 1] {
            try sandbox.write("cut.otaf", Array(bundle.prefix(count)))
            let run = try await sandbox.run("verify", "cut.otaf", "--trust", "release.pub.pem", "--format", "json")
            #expect(run.exit == 65, "cut to \(count)")
            #expect(try run.json().error?.code?.string == "truncated", "cut to \(count)")
        }
        try sandbox.write("long.otaf", bundle + [0])
        let run = try await sandbox.run("verify", "long.otaf", "--trust", "release.pub.pem", "--format", "json")
        #expect(run.exit == 65)
        #expect(try run.json().error?.code?.string == "trailing-bytes")
    }

    @Test("verify and inspect of a randomly changed bundle exit with 0, 65 or 77 and never crash")
    func mutatedBundlesAndImages() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 200)
        let bundle = try sandbox.read("fw.otaf")
        var random = SplitMix64(seed: 7)
        for round in 0..<40 {
            try sandbox.write("x", random.mutation(of: bundle))
            let verb = round.isMultiple(of: 2) ? "verify" : "inspect"
            let run = try await sandbox.run(verb, "x", "--trust", "release.pub.pem")
            let exit = try #require(run.exit, "round \(round): \(run.status)")
            #expect([0, 65, 77].contains(exit), "round \(round): \(run.err)")
        }
    }

    @Test("a missing file or a folder in place of a file exits with 66", arguments: ["verify", "inspect"])
    func aFileThatCannotBeRead(verb: String) async throws {
        let sandbox = try Sandbox()
        let missing = try await sandbox.run(verb, "missing", "--format", "json")
        #expect(missing.exit == 66)
        #expect(try missing.json().error?.code?.string == "no-such-file")
        let folder = try await sandbox.run(verb, ".", "--format", "json")
        #expect(folder.exit == 66)
        #expect(try folder.json().error?.code?.string == "not-a-file")
        let below = try await sandbox.run(verb, "/etc/passwd/x", "--format", "json")
        #expect(below.exit == 66)
    }

    @Test("a file without read permission exits with 74 and read-failed")
    func aFileOfSomebodyElse() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        chmod(sandbox.path("fw.otaf"), getuid() == 0 ? 0o600 : 0o000)
        let run = try await sandbox.runWithoutRights(["verify", "fw.otaf", "--format", "json"])
        #expect(run.exit == 74, "\(run.err)")
        #expect(try run.json().error?.code?.string == "read-failed")
    }

    @Test("a file of 1 TiB is refused with file-too-large")
    func aFileOfAbsurdSize() async throws {
        let sandbox = try Sandbox()
        try sandbox.write("huge", [1])
        #expect(truncate(sandbox.path("huge"), 1 << 40) == 0)
        let run = try await sandbox.run("verify", "huge", "--format", "json")
        #expect(run.exit == 65)
        #expect(try run.json().error?.code?.string == "file-too-large")
    }

    @Test("a file that is not a usable key is refused as a signing key and as a trusted key")
    func keysThatAreNone() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.openssl(
            "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "ec.pem")
        try await sandbox.openssl("pkey", "-in", "ec.pem", "-pubout", "-out", "ec.pub.pem")
        let files: [(String, [UInt8], Int32)] = [
            ("empty", [], 65), ("zeros", [UInt8](repeating: 0, count: 4096), 65),
            ("huge", [UInt8](repeating: 65, count: 1 << 20), 65),
            ("cut", Array(try sandbox.read("release.pem").prefix(60)), 65), ("ec", try sandbox.read("ec.pem"), 65),
            ("public", try sandbox.read("release.pub.pem"), 65),
            ("two", try sandbox.read("release.pem") + sandbox.read("release.pem"), 65),
        ]
        for (name, bytes, exit) in files {
            try sandbox.write(name, bytes)
            chmod(sandbox.path(name), 0o600)
            let signed = try await sandbox.run(
                "sign", "fw.bin", "--key", name, "--product", "demo", "--version", "1.0.0", "-o", "x.otaf")
            #expect(signed.exit == exit, "\(name): \(signed.status) \(signed.err)")
            #expect(signed.err.contains("otaflash: hint: "))
        }
        for name in ["empty", "zeros", "huge", "cut", "ec", "two", "release.pem"] {
            let verified = try await sandbox.run("verify", "fw.otaf", "--trust", name)
            #expect(verified.exit == 65, "\(name): \(verified.status) \(verified.err)")
        }
        #expect(!sandbox.exists("x.otaf"))
        // An ECDSA key can be trusted for MCUboot images. It cannot sign a bundle.
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "ec.pub.pem").exit == 77)
        #expect(try await sandbox.run("verify", "fw.otaf", "--trust", "fw.otaf").exit == 65)
        #expect(
            try await sandbox.run("sign", "fw.bin", "--key", ".", "--product", "d", "--version", "1.0.0").exit == 66)
    }

    @Test("a malformed or unsupported image is refused by sign and inspect")
    func imagesThatAreNone() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let esp = try sandbox.read(FilePath(Sandbox.sample("acme-thermostat-1.1.0.bin")))
        let files: [(String, [UInt8])] = [
            ("empty.bin", []), ("elf", [0x7F] + Array("ELF".utf8) + [UInt8](repeating: 0, count: 100)),
            ("zip", [0x50, 0x4B, 3, 4] + [UInt8](repeating: 0, count: 100)), ("cut.esp", Array(esp.prefix(1000))),
            ("broken.hex", Array(":10000000000102030405060708090A0B0C0D0E0FFF\n".utf8)),
        ]
        for (name, bytes) in files {
            try sandbox.write(name, bytes)
            let signed = try await sandbox.run(
                "sign", name, "--key", "release.pem", "--product", "demo", "--version", "1.0.0", "-o", "x.otaf")
            #expect(signed.exit == 65, "\(name): \(signed.status) \(signed.err)")
            let inspected = try await sandbox.run("inspect", name)
            #expect(inspected.exit == 65, "\(name): \(inspected.status) \(inspected.err)")
        }
        #expect(!sandbox.exists("x.otaf"))
        #expect(try await sandbox.run("sign", "missing", "--key", "release.pem").exit == 66)
        #expect(try await sandbox.run("sign", ".", "--key", "release.pem").exit == 66)
    }
}

import Testing

@Suite("Command verify as the gate of a release") struct VerifyReleaseTests {
    /// The options of `sign` for the previous and the new bundle, and the error code of `verify --previous`; nil: no error.
    static let successions: [(old: [String], new: [String], code: String?)] = [
        (["--version", "1.0.0", "--counter", "4"], ["--version", "1.0.1", "--counter", "4"], nil),
        (["--version", "1.0.0"], ["--version", "1.1.0", "--requires", "1.0.0"], nil),
        (["--version", "1.1.0-rc.2"], ["--version", "1.1.0"], nil),
        (["--version", "1.0.0"], ["--version", "1.0.0", "--counter", "1"], "version-not-raised"),
        (["--version", "1.0.0"], ["--version", "1.0.0+7"], "version-not-raised"),
        (["--version", "1.10.0"], ["--version", "1.9.0"], "version-not-raised"),
        (["--version", "1.0.0", "--counter", "4"], ["--version", "1.1.0", "--counter", "3"], "counter-lowered"),
        (["--version", "1.0.0"], ["--version", "1.1.0", "--requires", "1.0.1"], "requires-newer"),
        (["--version", "1.0.0"], ["--version", "1.1.0", "--product", "other"], "wrong-product"),
        (["--version", "1.0.0"], ["--version", "1.1.0", "--key", "second.pem"], "no-common-signer"),
    ]

    @Test(
        "verify --previous refuses a bundle that devices with the previous bundle cannot install",
        arguments: successions)
    func comparesWithThePreviousRelease(old: [String], new: [String], code: String?) async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", Sandbox.image(500))
        for name in ["release", "second"] { try await sandbox.run("keygen", name) }
        for (file, options) in [("old.otaf", old), ("new.otaf", new)] {
            let key = options.contains("--key") ? [] : ["--key", "release.pem"]
            let product = options.contains("--product") ? [] : ["--product", "demo"]
            let signed = try await sandbox.run(["sign", "fw.bin", "-o", file] + key + product + options)
            #expect(signed.exit == 0, "\(signed.err)")
        }
        let trust = ["--trust", "release.pub.pem", "--trust", "second.pub.pem", "--format", "json"]
        let run = try await sandbox.run(["verify", "new.otaf", "--previous", "old.otaf"] + trust)
        #expect(run.exit == (code == nil ? 0 : 77), "\(run.err)")
        let json = try run.json()
        #expect(json.error?.code?.string == code)
        if code == nil {
            #expect(
                json.previous?.members == [
                    "accepted_by", "file", "manifest_sha256", "same_release", "security_counter", "version",
                ])
            #expect(json.previous?.same_release?.bool == false && json.previous?.version?.string == old[1])
        } else {
            #expect(json.error?.hint?.string?.isEmpty == false)
        }
    }

    @Test(
        "verify --previous accepts the same release, notes hardware that is left out, and names an untrusted previous bundle"
    )
    func describesThePreviousRelease() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(version: "1.0.0", as: "old.otaf", "--hardware", "1..3,5")
        try await sandbox.release(version: "1.1.0", as: "new.otaf", "--hardware", "2..4")
        let trust = ["--trust", "release.pub.pem"]
        let same = try await sandbox.run(["verify", "old.otaf", "--previous", "old.otaf"] + trust)
        #expect(same.exit == 0 && same.out.contains("It is the same release as old.otaf.\n"), "\(same.out)\(same.err)")
        let next = try await sandbox.run(["verify", "new.otaf", "--previous", "old.otaf"] + trust)
        #expect(
            next.exit == 0 && next.out.contains("Devices with old.otaf (1.0.0) can install it if they trust the key "))
        #expect(
            next.err
                == "otaflash: note: the bundle is for hardware 2..4, and old.otaf is for hardware 1..3,5: devices with another revision "
                + "cannot install the bundle\n")

        try await sandbox.run("keygen", "other")
        try await sandbox.run(
            "sign", "fw.bin", "--key", "other.pem", "--product", "demo", "--version", "1.0.0", "-o", "forged.otaf")
        let forged = try await sandbox.run(["verify", "new.otaf", "--previous", "forged.otaf"] + trust)
        #expect(
            forged.exit == 77
                && forged.err.contains("the previous bundle: forged.otaf was refused: not signed by a trusted key"),
            "\(forged.err)")
        // The hint keeps the comparison. Without --previous, the command would succeed.
        #expect(
            forged.err.contains(
                "otaflash verify new.otaf --trust release.pub.pem --previous forged.otaf --trust KEY.pub.pem\n"),
            "\(forged.err)")
        let accepted = try await sandbox.run(
            ["verify", "new.otaf", "--previous", "forged.otaf", "--trust", "other.pub.pem"] + trust)
        #expect(accepted.exit == 77 && accepted.err.contains("not signed by a key that signed the previous bundle"))
        let missing = try await sandbox.run(["verify", "new.otaf", "--previous", "none.otaf"] + trust)
        #expect(missing.exit == 66 && missing.err.contains("the previous bundle: there is no file none.otaf"))
        try await sandbox.mcuboot()
        for pair in [("fw.signed.bin", "old.otaf"), ("new.otaf", "fw.signed.bin")] {
            let run = try await sandbox.run(["verify", pair.0, "--previous", pair.1] + trust)
            #expect(
                run.exit == 64 && run.err.contains("--previous compares bundles, and fw.signed.bin is not a bundle"))
        }
        let both = try await sandbox.run(["verify", "-", "--previous", "-"] + trust)
        #expect(both.exit == 64 && both.err.contains("both standard input"))
    }

    @Test("verify --signatures counts the different trusted keys with a valid signature")
    func countsSignatures() async throws {
        let sandbox = try Sandbox()
        for name in ["second", "third"] { try await sandbox.run("keygen", name) }
        try await sandbox.release("--key", "second.pem")
        func verify(_ count: String, _ trust: String...) async throws -> Run {
            try await sandbox.run(
                ["verify", "fw.otaf", "--signatures", count, "--format", "json"]
                    + trust.flatMap { ["--trust", "\($0).pub.pem"] })
        }
        #expect(try await verify("2", "release", "second").exit == 0)
        for run in [try await verify("2", "release", "third"), try await verify("3", "release", "second", "third")] {
            #expect(run.exit == 77)
            #expect(try run.json().error?.code?.string == "too-few-signatures")
        }
        // The second signer of the bundle is only untrusted here.
        let untrusted = try await sandbox.run("verify", "fw.otaf", "--signatures", "2", "--trust", "release.pub.pem")
        #expect(
            untrusted.err.contains("which is not trusted here")
                && untrusted.err.contains(
                    "otaflash verify fw.otaf --trust release.pub.pem --signatures 2 --trust KEY.pub.pem\n"),
            "\(untrusted.err)")
        for count in ["0", "5", "x"] { #expect(try await verify(count, "release").exit == 64) }
        try await sandbox.mcuboot()
        for (count, exit) in [("1", 0), ("2", 77)] as [(String, Int32)] {
            let image = try await sandbox.run(
                "verify", "fw.signed.bin", "--trust", "release.pub.pem", "--signatures", count)
            #expect(image.exit == exit, "\(image.err)")
            #expect(image.err.contains("an MCUboot image has only one signature") == (exit != 0))
        }
    }

    @Test("the hint of version-not-raised depends on whether the image contains its version")
    func hintsForAVersion() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(version: "1.0.0", as: "raw.otaf")
        try await sandbox.mcuboot()
        let signed = try await sandbox.run(
            "sign", "fw.signed.bin", "--key", "release.pem", "--product", "demo", "-o", "image.otaf")
        #expect(signed.exit == 0, "\(signed.err)")
        try await sandbox.release(version: "9.0.0", as: "last.otaf")
        for (file, hint) in [
            ("raw.otaf", "with a higher version"), ("image.otaf", "raise the version in the firmware"),
        ] {
            let run = try await sandbox.run("verify", file, "--previous", "last.otaf", "--trust", "release.pub.pem")
            #expect(run.exit == 77 && run.err.contains(hint), "\(run.err)")
        }
    }
}

import Testing

@Suite("The policy of a trust folder, in each command") struct PolicyTests {
    /// A sandbox with the keys `release` and `second`, `fw.otaf` (1.1.0) with one signature, `two.otaf` (1.1.0) with two signatures, and
    /// the folder `trust` with both keys.
    private static func sandbox(policy: String) async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.run("keygen", "second").exit == 0)
        let signed = try await sandbox.run("sign", "fw.otaf", "--key", "second.pem", "-o", "two.otaf")
        #expect(signed.exit == 0, "\(signed.err)")
        let made = try await sandbox.shell("umask 022; mkdir trust; install -m 644 *.pub.pem trust")
        #expect(made.exit == 0, "\(made.err)")
        try sandbox.write("trust/trust.policy", Array(policy.utf8))
        return sandbox
    }

    private static func run(_ words: String..., in sandbox: Sandbox) async throws -> (exit: Int32?, error: JSONValue?) {
        let run = try await sandbox.run(words + ["--trust", "trust", "--format", "json"])
        return (run.exit, try run.json().error)
    }

    @Test(
        "signatures = 2: verify and push refuse a bundle with one signature, accept one with two, and name the policy")
    func twoSignatures() async throws {
        let sandbox = try await Self.sandbox(policy: "signatures = 2\n")
        try await sandbox.create()
        let push = ["--device", "sim:kitchen?pace=virtual"]
        for words in [["verify", "fw.otaf"], ["push", "fw.otaf"] + push] {
            let run = try await sandbox.run(words + ["--trust", "trust", "--format", "json"])
            let error = try run.json().error
            #expect(run.exit == 77 && error?.code?.string == "too-few-signatures", "\(run.out)")
            #expect(
                error?.message?.string?.contains("signed by 1 of the 2 trusted keys that trust/trust.policy requires")
                    == true)
        }
        let inspected = try await Self.run("inspect", "fw.otaf", in: sandbox)
        #expect(inspected.exit == 0)
        #expect(try await Self.run("verify", "two.otaf", in: sandbox).exit == 0)
        #expect(try await Self.run("push", "two.otaf", push[0], push[1], in: sandbox).exit == 0)
        // The previous release can be older than the policy.
        try await sandbox.release(version: "1.0.0", as: "old.otaf")
        #expect(try await Self.run("verify", "two.otaf", "--previous", "old.otaf", in: sandbox).exit == 0)
        let doctor = try await sandbox.run(
            "doctor", "--trust", "trust", "--format", "json",
            env: ["DBUS_SYSTEM_BUS_ADDRESS": "unix:path=\(sandbox.path("none"))"])
        let trust = try doctor.json().checks?.array?.first { $0.name?.string == "trust" }
        #expect(trust?.message?.string?.hasSuffix("; policy: signatures = 2") == true)
    }

    @Test("signatures = 2: an MCUboot image is refused, also with --unverified-image and without a signature")
    func images() async throws {
        let sandbox = try await Self.sandbox(policy: "signatures = 2\n")
        try await sandbox.mcuboot()
        try await sandbox.create(options: ["--protocol", "smp"])
        let unsigned = try await sandbox.shell("rm trust/release.pub.pem")
        #expect(unsigned.exit == 0)
        for options in [[], ["--unverified-image"]] {
            let run = try await sandbox.run(
                [
                    "push", "fw.signed.bin", "--device", "sim:kitchen?pace=virtual", "--trust", "trust", "--format",
                    "json",
                ]
                    + options)
            #expect(run.exit == 77, "\(options) \(run.out)")
            #expect(try run.json().error?.code?.string == (options.isEmpty ? "untrusted-key" : "too-few-signatures"))
        }
    }

    @Test("the policy of a folder without a key applies to an unverified image, and to rollout create")
    func withoutKeys() async throws {
        let sandbox = try await Self.sandbox(policy: "downgrade = refuse\n")
        try await sandbox.mcuboot()
        try await sandbox.create(options: ["--protocol", "smp", "--version", "9.0.0"])
        #expect(try await sandbox.shell("rm trust/*.pub.pem").exit == 0)
        let push = [
            "push", "fw.signed.bin", "--device", "sim:kitchen?pace=virtual", "--unverified-image", "--format", "json",
        ]
        let named = try await sandbox.run(push + ["--trust", "trust"])
        #expect(try named.exit == 77 && named.json().error?.code?.string == "downgrade", "\(named.out)")
        // The default folder, with a link to a missing policy.
        let link =
            "umask 022; mkdir -p home/.config/otaflash/trust; ln -s absent home/.config/otaflash/trust/trust.policy"
        #expect(try await sandbox.shell(link).exit == 0)
        let broken = try await sandbox.run(push, env: ["HOME": sandbox.path("home"), "XDG_CONFIG_HOME": ""])
        #expect(try broken.exit == 66 && broken.json().error?.code?.string == "no-such-file", "\(broken.out)")
        let both = try await sandbox.run(push + ["--trust", "trust", "--signatures", "2"])
        #expect(both.exit == 64, "\(both.err)")
    }

    @Test(
        "a misspelt name of a policy is refused, and the backup of an editor is not",
        arguments: ["trust.polcy", "trust.policy.txt", "trust.policy~"])
    func misspelt(name: String) async throws {
        let sandbox = try await Self.sandbox(policy: "signatures = 1\n")
        try sandbox.write("trust/\(name)", Array("signatures = 2\n".utf8))
        let run = try await Self.run("verify", "fw.otaf", in: sandbox)
        let code = name.hasSuffix("~") ? nil : "bad-trust-policy"
        #expect(
            run.error?.code?.string == code && run.exit == (code == nil ? 0 : 65), "\(String(describing: run.error))")
    }

    @Test(
        "a damaged key file with a scope stops the command, because another file can have the same key without the scope"
    )
    func scopeOfADamagedKey() async throws {
        let sandbox = try await Self.sandbox(policy: "signatures = 1\n")
        try sandbox.write("trust/release.pub.pem.scope", Array("product = other\n".utf8))
        let copy = "cp trust/release.pub.pem trust/copy.pub.pem; chmod 666 trust/release.pub.pem"
        #expect(try await sandbox.shell(copy).exit == 0)
        let run = try await Self.run("verify", "fw.otaf", in: sandbox)
        #expect(run.exit == 77 && run.error?.code?.string == "trust-permissions", "\(String(describing: run.error))")
    }

    @Test("push --signatures 2 refuses a bundle with one signature, and the hint keeps the option")
    func option() async throws {
        let sandbox = try await Self.sandbox(policy: "# nothing\nsignatures = 1\n")
        try await sandbox.create()
        let push = [
            "--device", "sim:kitchen?pace=virtual", "--signatures", "2", "--trust", "trust", "--format", "json",
        ]
        let one = try await sandbox.run(["push", "fw.otaf"] + push)
        #expect(one.exit == 77)
        #expect(try one.json().error?.code?.string == "too-few-signatures")
        #expect(try await sandbox.run(["push", "two.otaf"] + push).exit == 0)
        #expect(try await sandbox.run(["push", "two.otaf", "--signatures", "5"] + push.prefix(2)).exit == 64)
    }

    @Test(
        "downgrade = refuse: push refuses a lower version over both protocols, without --no-downgrade",
        arguments: ["ota", "smp"])
    func downgrade(updateProtocol: String) async throws {
        let sandbox = try await Self.sandbox(policy: "downgrade = refuse\n")
        try await sandbox.mcuboot()
        try await sandbox.create(options: ["--protocol", updateProtocol, "--version", "9.0.0"])
        let file = updateProtocol == "ota" ? "fw.otaf" : "fw.signed.bin"
        let run = try await Self.run("push", file, "--device", "sim:kitchen?pace=virtual", in: sandbox)
        #expect(run.exit == 77 && run.error?.code?.string == "downgrade", "\(String(describing: run.error))")
        #expect(run.error?.message?.string?.contains("and trust/trust.policy refuses it") == true)
        #expect(run.error?.hint?.string?.contains("trust/trust.policy") == true)
        // Without the policy, the device accepts the version.
        #expect(try await sandbox.shell("rm trust/trust.policy").exit == 0)
        #expect(try await Self.run("push", file, "--device", "sim:kitchen?pace=virtual", in: sandbox).exit == 0)
    }

    @Test("a policy with a line that is not understood stops verify and push with bad-trust-policy")
    func unknownLine() async throws {
        let sandbox = try await Self.sandbox(policy: "signatures = 2\nexpires = 2027-01-01\n")
        for words in [
            ["verify", "two.otaf"], ["push", "two.otaf", "--device", "sim:"],
            ["push", "two.otaf", "--device", "sim:", "--unverified-image"],
        ] {
            let run = try await sandbox.run(words + ["--trust", "trust", "--format", "json"])
            let error = try run.json().error
            #expect(run.exit == 65 && error?.code?.string == "bad-trust-policy", "\(run.out)")
            #expect(error?.message?.string?.contains("trust/trust.policy:2: 'expires'") == true)
        }
    }

    @Test("the policy applies to release publish, rollout create and the gateway")
    func fleet() async throws {
        let fleet = try await Fleet(devices: 1)
        let sandbox = fleet.sandbox
        #expect(try await sandbox.shell("umask 022; mkdir trust; install -m 644 release.pub.pem trust").exit == 0)
        let create = [
            "rollout", "create", "spring", "--release", fleet.release, "--select", "product=demo", "--key", "ops.pem",
            "--trust", "trust", "--format", "json",
        ]
        try sandbox.write("trust/trust.policy", Array("downgrade = refuse\n".utf8))
        let downgrade = try await fleet.run(create + ["--allow-downgrade"])
        #expect(try downgrade.exit == 77 && downgrade.json().error?.code?.string == "downgrade", "\(downgrade.out)")
        try sandbox.write("trust/trust.policy", Array("signatures = 2\n".utf8))
        for words in [
            create, ["release", "publish", "fw.otaf", "--key", "ops.pem", "--trust", "trust", "--format", "json"],
        ] {
            let run = try await fleet.run(words)
            #expect(try run.exit == 77 && run.json().error?.code?.string == "too-few-signatures", "\(run.out)")
        }
        // An operator without the policy creates the rollout. The gateway has the policy, and starts no update.
        try await fleet.create("spring")
        let (_, gateway) = try await fleet.withGatewayAlone(["--trust", "trust"]) {
            try await FleetServer.wait { try await fleet.run(["fleet", "events"]).out.contains("bad-release") }
        }
        #expect(gateway.err.contains("trusted keys that trust/trust.policy requires"), "\(gateway.err)")
        #expect(gateway.err.contains("sign the image again as a new release"))
        #expect(try await fleet.count("done") == 0)
    }
}

import Testing

@Suite("Rolling a key with virtual devices") struct KeyRotationTests {
    /// A sandbox with the keys `release` and `new`, and the virtual device `kitchen` that trusts `release`.
    private static func sandbox() async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 3000)
        #expect(try await sandbox.run("keygen", "new").exit == 0)
        try await sandbox.create()
        return sandbox
    }

    /// Makes a bundle whose image lists the keys of `firmware`.
    private static func sign(
        _ bundle: String, _ version: String, keys: [String], firmware: [String], _ sandbox: Sandbox, text: String = ""
    ) async throws {
        let listed = try firmware.flatMap { try sandbox.read("\($0).pub.pem") }
        try sandbox.write(
            "\(bundle).bin", Sandbox.image(3000) + Array("otaflash-trusted-keys:\n".utf8) + listed + Array(text.utf8))
        let run = try await sandbox.run(
            ["sign", "\(bundle).bin", "--product", "demo", "--version", version, "-o", bundle]
                + keys.flatMap { ["--key", "\($0).pem"] })
        #expect(run.exit == 0, "\(run.err)")
    }

    private static func push(_ bundle: String, trust: String, _ options: String..., in sandbox: Sandbox) async throws
        -> Run
    {
        try await sandbox.run(
            ["push", bundle, "--device", "sim:kitchen?pace=virtual", "--trust", "\(trust).pub.pem", "--format", "json"]
                + ["--progress", "none"] + options)
    }

    /// The names of the keys that the device trusts.
    private static func trusted(_ sandbox: Sandbox) async throws -> [String] {
        let status = try await sandbox.run("status", "--device", "sim:kitchen?pace=virtual", "--format", "json")
        let ids = try #require(try status.json().device?.keys?.array?.map(\.string))
        var names: [String] = []
        for name in ["release", "new"] {
            let key = try await sandbox.run("inspect", "\(name).pub.pem", "--format", "json").json().key?.key_id
            if ids.contains(key?.string) { names.append(name) }
        }
        #expect(names.count == ids.count)
        return names
    }

    @Test("a device that requires two signatures rolls back from an image with one key")
    func tooFewKeys() async throws {
        let sandbox = try await Self.sandbox()
        #expect(try await sandbox.run("simulate", "remove", "kitchen").exit == 0)
        try await sandbox.create(options: ["--trust", "release.pub.pem", "--trust", "new.pub.pem", "--signatures", "2"])
        try await Self.sign("one.otaf", "1.2.0", keys: ["release", "new"], firmware: ["new"], sandbox)
        let run = try await Self.push("one.otaf", trust: "new", in: sandbox)
        #expect(try run.exit == 78 && run.json().error?.code?.string == "rolled-back", "\(run.out)")
        #expect(try await Self.trusted(sandbox) == ["release", "new"])
    }

    @Test("a virtual device trusts the keys in the image that it runs, and its first keys again after a rollback")
    func adoptsTheKeys() async throws {
        let sandbox = try await Self.sandbox()
        try await Self.sign("both.otaf", "1.2.0", keys: ["release", "new"], firmware: ["new"], sandbox)
        try await Self.sign("later.otaf", "1.3.0", keys: ["new"], firmware: ["new", "release"], sandbox)
        #expect(try await Self.trusted(sandbox) == ["release"])
        #expect(try await Self.push("both.otaf", trust: "new", "--no-confirm", in: sandbox).exit == 0)
        #expect(try await Self.trusted(sandbox) == ["new"])
        #expect(try await sandbox.run("discard", "--device", "sim:kitchen?pace=virtual").exit == 0)
        #expect(try await Self.trusted(sandbox) == ["release"])
        #expect(try await Self.push("both.otaf", trust: "new", in: sandbox).exit == 0)
        #expect(try await Self.trusted(sandbox) == ["new"])
        // The old key alone is no longer sufficient.
        try await Self.sign("thief.otaf", "9.0.0", keys: ["release"], firmware: ["release"], sandbox)
        let thief = try await Self.push("thief.otaf", trust: "release", in: sandbox)
        #expect(try thief.json().error?.code?.string == "untrusted-by-device")
        #expect(try await Self.push("later.otaf", trust: "new", in: sandbox).exit == 0)
        #expect(try await Self.trusted(sandbox) == ["release", "new"])
    }

    @Test(
        "a virtual device keeps its keys if no key follows the line in the image",
        arguments: [
            "", "-----BEGIN PUBLIC KEY-----\n", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
            "\n-----BEGIN PUBLIC KEY-----\n",
        ])
    func keepsTheKeys(text: String) async throws {
        let sandbox = try await Self.sandbox()
        try await Self.sign("odd.otaf", "1.2.0", keys: ["release"], firmware: [], sandbox, text: text)
        #expect(try await Self.push("odd.otaf", trust: "release", in: sandbox).exit == 0)
        #expect(try await Self.trusted(sandbox) == ["release"])
    }

    @Test("the hint of push suggests a key of the device for signing only if this key is trusted here")
    func suggestsOnlyTrustedKeys() async throws {
        let sandbox = try await Self.sandbox()
        try await Self.sign("later.otaf", "1.3.0", keys: ["new"], firmware: ["new"], sandbox)
        let retired = try await Self.push("later.otaf", trust: "new", in: sandbox).json().error
        #expect(retired?.code?.string == "untrusted-by-device")
        #expect(retired?.hint?.string?.contains("--key") == false, "\(retired?.hint?.string ?? "")")
        #expect(retired?.hint?.string?.contains("otaflash push RELEASE --device") == true)
        let both = try await Self.push("later.otaf", trust: "new", "--trust", "release.pub.pem", in: sandbox).json()
            .error
        #expect(both?.hint?.string?.contains("otaflash sign later.otaf --key KEY --force") == true)
    }

    @Test("verify --previous names the keys that a device must trust, and those with which it refuses the bundle")
    func namesTheKeys() async throws {
        let sandbox = try await Self.sandbox()
        var ids: [String: String] = [:]
        for name in ["release", "new"] {
            ids[name] = try await sandbox.run("inspect", "\(name).pub.pem", "--format", "json").json().key?.key_id?
                .string
        }
        try await Self.sign("old.otaf", "1.2.0", keys: ["release", "new"], firmware: ["new"], sandbox)
        try await Self.sign("later.otaf", "1.3.0", keys: ["release"], firmware: ["new"], sandbox)
        let trust = ["--trust", "release.pub.pem", "--trust", "new.pub.pem"]
        let text = try await sandbox.run(["verify", "later.otaf", "--previous", "old.otaf"] + trust)
        let (old, new) = try (#require(ids["release"]), #require(ids["new"]))
        #expect(
            text.out.contains("Devices with old.otaf (1.2.0) can install it if they trust the key \(old).\n"),
            "\(text.out)")
        #expect(text.out.contains("Devices that trust only \(new) refuse it: old.otaf also has that signature.\n"))
        let json = try await sandbox.run(
            ["verify", "later.otaf", "--previous", "old.otaf", "--format", "json"] + trust
        ).json()
        #expect(json.previous?.accepted_by == .array([.string(old)]))
        #expect(json.previous?.refused_by == .array([.string(new)]))
        // The previous bundle of a machine that no longer trusts its key: the hint names the release with both signatures.
        try await Self.sign("first.otaf", "1.0.0", keys: ["release"], firmware: ["release"], sandbox)
        let run = try await sandbox.run(
            "verify", "old.otaf", "--previous", "first.otaf", "--trust", "new.pub.pem", "--format", "json")
        #expect(
            try run.json().error?.hint?.firstLine?.contains("compare with the release that both keys signed") == true)
    }
}

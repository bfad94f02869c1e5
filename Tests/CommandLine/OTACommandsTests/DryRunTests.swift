import FakeBlueZ
import FoundationEssentials
import OTAFirmware
import OTASigning
import Testing

@Suite("push --dry-run") struct DryRunTests {
    /// The SHA-256 of each file of the virtual device `kitchen`.
    ///
    /// - Parameter isOnTrial: true to omit the two pages with boot records at the start of the flash. During a trial, a virtual device
    ///   writes a record whenever a command opens it, also for `status`.
    private func fingerprint(_ sandbox: Sandbox, isOnTrial: Bool = false) throws -> [String: String] {
        let names = try FileManager.default.contentsOfDirectory(atPath: sandbox.path("state/kitchen"))
        let digests = try names.map { name in
            let bytes = try sandbox.read("state/kitchen/\(name)")
            return SHA256.digest(of: Array(bytes.dropFirst(isOnTrial && name == "flash" ? 8192 : 0))).description
        }
        return Dictionary(uniqueKeysWithValues: zip(names, digests))
    }

    private func status(_ sandbox: Sandbox) async throws -> JSONValue {
        try await sandbox.run("status", "--device", "sim:kitchen?pace=virtual", "--format", "json").json()
    }

    /// A state of the device, and the expected plan. `gone-at` leaves a partial upload.
    static let states: [(commands: [[String]], resumes: Bool, discards: Bool, options: [String])] = [
        ([], false, false, []),
        ([["fw.otaf", "sim:kitchen?pace=virtual&gone-at=0.5"]], true, false, []),
        ([["fw.otaf", "sim:kitchen?pace=virtual&gone-at=0.5"]], true, false, ["--resume"]),
        ([["fw.otaf", "sim:kitchen?pace=virtual&gone-at=0.5"]], false, true, ["--restart"]),
        ([["other.otaf", "sim:kitchen?pace=virtual&gone-at=0.5"]], false, true, []),
    ]

    @Test("a dry run changes no byte of the device, and its plan is the transfer of the push", arguments: states)
    func planIsTheTransfer(state: (commands: [[String]], resumes: Bool, discards: Bool, options: [String])) async throws
    {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 120_800)
        try await sandbox.release(size: 60_000, version: "1.2.0", as: "other.otaf")
        try await sandbox.create()
        for command in state.commands { #expect(try await sandbox.push(command[1], bundle: command[0]).exit == 75) }
        let (before, files) = (try await status(sandbox), try fingerprint(sandbox))

        let options = state.options + ["--dry-run"]
        let run = try await sandbox.run(
            ["push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem"] + options
                + ["--format", "json", "--progress", "json"])
        #expect(run.exit == 0, "\(run.err)")
        let answer = try run.json()
        #expect(
            answer.members == ["bundle", "command", "device", "exit", "ok", "outcome", "plan", "protocol", "schema"])
        #expect(answer.outcome?.string == "would-update" && answer.device?.running_version?.string == "1.0.0")
        #expect(try run.events().compactMap { $0.phase?.string } == ["connect", "preflight"])
        #expect(try fingerprint(sandbox) == files)
        #expect(try await status(sandbox) == before)

        let plan = try #require(answer.plan)
        let offset = try #require(plan.resume_from?.number)
        #expect((offset > 0) == state.resumes && plan.bytes?.number == 120_800 - offset, "\(plan)")
        let held = before.transfer?.offset?.number ?? 0
        #expect(plan.discards?.number == (state.discards ? held : 0) && (held > 0) == (state.resumes || state.discards))

        let push = try await sandbox.run(
            ["push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem"] + state.options
                + ["--format", "json", "--progress", "json"])
        #expect(try push.exit == 0 && push.json().transfer?.resumed_from?.number == offset, "\(push.out)")
    }

    @Test("the text of a dry run names the versions, the bytes to send and the partial upload to discard")
    func text() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 120_800)
        try await sandbox.release(size: 60_000, version: "1.2.0", as: "other.otaf")
        try await sandbox.create()
        let words = ["push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem"]
        let first = try await sandbox.run(words + ["--dry-run"])
        #expect(
            first.out
                == "kitchen (sim:kitchen, GATT OTA profile) would be updated from 1.0.0 to 1.1.0: 120.8 kB to send.\n")
        #expect(try await sandbox.push("sim:kitchen?pace=virtual&gone-at=0.5", bundle: "other.otaf").exit == 75)
        let held = try #require(try await status(sandbox).transfer?.offset?.number)
        let discarding = try await sandbox.run(words + ["--dry-run"])
        #expect(
            discarding.out.hasSuffix(
                "120.8 kB to send. The device would discard a partial upload of \((held / 100).rounded() / 10) kB.\n"),
            "\(discarding.out)")
        #expect(try await sandbox.run(words + ["--no-confirm"]).exit == 0)
        let trial = try await sandbox.run(words + ["--dry-run"])
        #expect(
            trial.out
                == "kitchen (sim:kitchen, GATT OTA profile) runs 1.1.0 on trial, and would be confirmed: nothing to send.\n"
        )
    }

    @Test(
        "a dry run confirms no trial, and reports the outcome of a push that changes nothing",
        arguments: ["ota", "smp"])
    func trial(updateProtocol: String) async throws {
        let sandbox = try Sandbox()
        let isSMP = updateProtocol == "smp"
        if isSMP { try await sandbox.mcuboot() } else { try await sandbox.release() }
        try await sandbox.create("--protocol", updateProtocol)
        let file = isSMP ? "fw.signed.bin" : "fw.otaf"
        func push(_ options: String...) async throws -> JSONValue {
            let run = try await sandbox.push("sim:kitchen?pace=virtual", image: file, options[...])
            #expect(run.exit == 0, "\(run.err)")
            return try run.json()
        }
        #expect(try await push("--no-confirm").outcome?.string == "on-trial")
        let before = try fingerprint(sandbox, isOnTrial: true)
        let dry = try await push("--dry-run")
        #expect(
            dry.outcome?.string == "would-update" && dry.plan?.bytes?.number == 0
                && dry.device?.state?.string == "trial")
        #expect(try await push("--dry-run", "--no-confirm").outcome?.string == "on-trial")
        #expect(try fingerprint(sandbox, isOnTrial: true) == before)
        #expect(try await status(sandbox).device?.state?.string == "trial")
        #expect(try await push().outcome?.string == "confirmed")
        let running = try await push("--dry-run")
        #expect(running.outcome?.string == "already-running" && running.plan == nil)
    }

    @Test("a dry run over SMP changes no byte of the device, and reports no offset unless the push starts at 0")
    func overSMP() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot(size: 30_000)
        try await sandbox.create("--protocol", "smp")
        let size = Double(try sandbox.read("fw.signed.bin").count)
        let before = try fingerprint(sandbox)
        for (options, offset) in [([], nil), (["--restart"], 0), (["--permanent"], nil), (["--upload-only"], nil)]
            as [([String], Double?)]
        {
            let run = try await sandbox.push(
                "sim:kitchen?pace=virtual", image: "fw.signed.bin", options[...] + ["--dry-run"])
            #expect(run.exit == 0, "\(run.err)")
            let answer = try run.json()
            #expect(answer.outcome?.string == "would-update" && answer.transfer == nil)
            #expect(answer.plan?.bytes?.number == size && answer.plan?.resume_from?.number == offset)
            #expect(answer.plan?.discards == nil)
        }
        #expect(try fingerprint(sandbox) == before)
        // A complete image in the slot is not sent again, and an image that is marked for boot stays as it is.
        #expect(try await sandbox.push("sim:kitchen?pace=virtual", image: "fw.signed.bin", "--upload-only").exit == 0)
        let held = try fingerprint(sandbox)
        let dry = try await sandbox.push("sim:kitchen?pace=virtual", image: "fw.signed.bin", "--dry-run")
        #expect(try dry.json().plan?.bytes?.number == 0 && dry.json().outcome?.string == "would-update")
        #expect(try fingerprint(sandbox) == held)
        let text = try await sandbox.run(
            "push", "fw.signed.bin", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem", "--dry-run")
        #expect(
            text.out
                == "kitchen (sim:kitchen, SMP) would be updated from 1.0.0 to 1.1.0: nothing to send.\n")
    }

    // MARK: Refusals

    /// A refusal: the options of the release, of the device and of the push, the query of the address, and the code.
    typealias Refusal = (bundle: [String], device: [String], push: [String], query: String, code: String)

    static let refusals: [Refusal] =
        PushTests.refusals.map { ($0.bundle, $0.device, [], $0.query, $0.code) } + [
            ([], ["--trial", "0"], [], "", "no-trial"),
            ([], [], ["--permanent"], "", "trial-available"),
            ([], ["--version", "2.0.0"], ["--no-downgrade"], "", "downgrade"),
            ([], [], ["--upload-only"], "", "unsupported-device"),
            ([], [], ["--protocol", "smp"], "", "unsupported-device"),
        ]

    /// Compares a dry run with the push after it: exit status, code and message.
    private func expectRefusal(
        _ sandbox: Sandbox, _ code: String, exit: Int32 = 77, file: String = "fw.otaf", query: String = "",
        _ options: [String]
    ) async throws {
        let isOnTrial = code == "in-trial"
        let before = try fingerprint(sandbox, isOnTrial: isOnTrial)
        let words = ["push", file, "--device", "sim:kitchen?pace=virtual\(query)", "--trust", "release.pub.pem"]
        let dry = try await sandbox.run(words + options + ["--dry-run", "--format", "json"])
        #expect(try fingerprint(sandbox, isOnTrial: isOnTrial) == before)
        let real = try await sandbox.run(words + options + ["--format", "json"])
        #expect(dry.exit == exit && real.exit == exit, "\(dry.out)\(real.out)")
        let (first, second) = (try dry.json().error, try real.json().error)
        #expect(first?.code?.string == code && second?.code?.string == code, "\(dry.out)\(real.out)")
        #expect(first?.message == second?.message)
    }

    @Test(
        "a dry run over the OTA profile is refused like the push, with the same code, exit status and message",
        arguments: refusals)
    func isRefused(refusal: Refusal) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(options: refusal.bundle)
        try await sandbox.run("keygen", "other")
        try await sandbox.create(options: refusal.device)
        try await expectRefusal(
            sandbox, refusal.code, exit: refusal.code == "unsupported-device" ? 76 : 77, query: refusal.query,
            refusal.push)
    }

    @Test("a dry run is refused like the push for a large image, and during the trial of another image")
    func isRefusedWithAnotherImage() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 2_200_000)
        try await sandbox.create()
        try await expectRefusal(sandbox, "image-too-large", [])
        try await sandbox.release(size: 5000, as: "small.otaf")
        try await sandbox.release(size: 6000, version: "1.2.0", as: "other.otaf")
        #expect(try await sandbox.push("sim:kitchen?pace=virtual", "--no-confirm", bundle: "other.otaf").exit == 0)
        try await expectRefusal(sandbox, "in-trial", file: "small.otaf", [])
    }

    @Test("a dry run over SMP is refused like the push, with the same code, exit status and message")
    func isRefusedOverSMP() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        func create(_ options: String...) async throws {
            _ = try await sandbox.run("simulate", "remove", "kitchen")
            try await sandbox.create(options: ["--protocol", "smp"] + options)
        }
        try await create("--version", "2.0.0")
        try await expectRefusal(sandbox, "downgrade", file: "fw.signed.bin", ["--no-downgrade"])
        try await create("--without", "marks")
        try await expectRefusal(sandbox, "unsupported-device", exit: 76, file: "fw.signed.bin", [])
        try await create()
        try await sandbox.release()
        try await expectRefusal(sandbox, "wrong-image-format", [])
        for (options, code) in [
            (["--product", "kettle"], "wrong-product"), (["--hardware", "2"], "target-unchecked"),
            (["--requires", "1.1.0"], "requires-newer"),
        ] {
            let product = options[0] == "--product" ? [] : ["--product", "demo"]
            let signed = try await sandbox.run(
                ["sign", "fw.signed.bin", "--key", "release.pem", "--force", "-o", "fw.otaf"] + product + options)
            #expect(signed.exit == 0, "\(signed.err)")
            try await expectRefusal(sandbox, code, [])
        }
        try await sandbox.mcuboot(size: 30_000, version: "1.2.0", as: "other.bin")
        #expect(try await sandbox.push("sim:kitchen?pace=virtual", image: "other.bin", "--no-confirm").exit == 0)
        try await expectRefusal(sandbox, "in-trial", file: "fw.signed.bin", [])
        try await sandbox.mcuboot(size: 2_200_000)
        try await create()
        try await expectRefusal(sandbox, "image-too-large", file: "fw.signed.bin", [])
    }

    @Test("a dry run verifies the file, and creates no virtual device")
    func creates() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.run("keygen", "other")
        let words = ["push", "fw.otaf", "--device", "sim:", "--dry-run", "--format", "json", "--trust"]
        let untrusted = try await sandbox.run(words + ["other.pub.pem"])
        #expect(try untrusted.exit == 77 && untrusted.json().error?.code?.string == "untrusted-key")
        let missing = try await sandbox.run(words + ["release.pub.pem"])
        #expect(try missing.exit == 69 && missing.json().error?.code?.string == "no-such-device", "\(missing.out)")
        #expect(!sandbox.exists("state/demo"))
    }

    @Test("a dry run over BLE succeeds and does not pair, although the push needs the passkey")
    func doesNotPair() async throws {
        try await World.run(passkey: 123_456) { world in
            let sandbox = try Sandbox()
            try await sandbox.releaseForWorld()
            let words = ["push", "fw.otaf", "--device", world.device, "--trust", "world.pub.pem", "--format", "json"]
            let dry = try await sandbox.run(
                words + ["--dry-run", "--passkey", "123456"], env: Sandbox.environment(of: world))
            #expect(try dry.exit == 0 && dry.json().outcome?.string == "would-update", "\(dry.out)")
            #expect(await world.fake?.isPaired == false)
            let push = try await sandbox.run(words + ["--passkey", "123456"], env: Sandbox.environment(of: world))
            #expect(push.exit == 0, "\(push.out)")
            #expect(await world.fake?.isPaired == true)
        }
    }
}

import OTAFirmware
import Testing

@Suite("Command push over the OTA profile") struct PushTests {
    @Test("push --format json reports the bundle, the device and the transfer")
    func answersInJSON() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.push()
        #expect(run.exit == 0, "\(run.err)")
        let json = try run.json()
        #expect(
            json.members == ["bundle", "command", "device", "exit", "ok", "outcome", "protocol", "schema", "transfer"])
        #expect(!json.holdsNull && json.outcome?.string == "confirmed")
        #expect(json.bundle?.signatures?[0]?.valid?.bool == true)
        let device = try #require(json.device)
        #expect(
            device.address?.string == "sim:demo" && device.name?.string == "demo" && device.product?.string == "demo")
        #expect(device.previous_version?.string == "0.0.0" && device.running_version?.string == "1.1.0")
        #expect(device.confirmed?.bool == true && device.hardware?.number == 1)
        let transfer = try #require(json.transfer)
        #expect(
            transfer.members == [
                "bytes_per_second", "chunk_size", "disconnects", "efficiency", "encoding", "flushes", "gaps",
                "image_bytes",
                "link_bound_bytes_per_second", "link_bytes_per_second", "mtu", "plain_because", "resent_bytes",
                "resumed_from", "seconds", "sent_bytes",
            ])
        // Random bytes cannot be compressed.
        #expect(transfer.encoding?.string == "plain" && transfer.plain_because?.string == "not-smaller")
        #expect(transfer.resumed_from?.number == 0 && transfer.image_bytes?.number == 20_000)
        #expect(transfer.sent_bytes?.number == 20_000 && transfer.resent_bytes?.number == 0)
        #expect(transfer.chunk_size?.number == 244 && transfer.mtu?.number == 247)
        #expect(transfer.disconnects?.number == 0 && transfer.gaps?.number == 0)
        // 6 packets of 244 bytes (251 minus 7 header bytes) every 15 ms.
        #expect(transfer.link_bound_bytes_per_second?.number == 97_600)
        let seconds = try #require(transfer.seconds?.number)
        let rate = try #require(transfer.bytes_per_second?.number)
        #expect(abs(rate - 20_000 / seconds) < 200)
        let efficiency = try #require(transfer.efficiency?.number)
        #expect(abs(efficiency - rate / 97_600) < 0.001 && efficiency > 0.8)
    }

    @Test("push reports the new version, the old version and the bytes sent again")
    func saysHowItWent() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:?pace=virtual&drop-at=0.5", "--trust", "release.pub.pem")
        #expect(run.exit == 0)
        #expect(run.out.contains("demo (sim:demo, GATT OTA profile) now runs 1.1.0, confirmed (before: 0.0.0)."))
        #expect(run.out.contains("sent again after 1 lost link."))
    }

    @Test("push sends nothing when the device already runs the image")
    func sendsNothingTwice() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.push().exit == 0)
        for options in [[], ["--resume"]] {
            let run = try await sandbox.run(
                ["push", "fw.otaf", "--device", "sim:", "--trust", "release.pub.pem", "--format", "json"] + options)
            #expect(run.exit == 0)
            let json = try run.json()
            #expect(json.outcome?.string == "already-running" && json.device?.confirmed?.bool == true)
            #expect(json.transfer?.sent_bytes?.number == 0)
        }
        let text = try await sandbox.run("push", "fw.otaf", "--device", "sim:", "--trust", "release.pub.pem")
        #expect(text.out.contains("nothing was sent"))
    }

    // MARK: Faults during the transfer

    @Test(
        "push completes after one injected fault of the link",
        arguments: [
            "drop-at=0.4", "drop-at=0.1,0.5,1", "gap=0.05", "loss=0.2", "reset-at=0.6", "mtu=23", "interval=50ms",
        ])
    func arrivesAllTheSame(fault: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.push("sim:?pace=virtual&\(fault)")
        #expect(run.exit == 0, "\(run.err)")
        let json = try run.json()
        #expect(json.device?.running_version?.string == "1.1.0" && json.device?.confirmed?.bool == true)
        let sent = try #require(json.transfer?.sent_bytes?.number)
        let again = try #require(json.transfer?.resent_bytes?.number)
        #expect(sent == 20_000 + again)
    }

    @Test("push --resume continues from the device's offset after a lost link")
    func goesOnWhereALostLinkStopped() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let lost = try await sandbox.push("sim:?pace=virtual&gone-at=0.6")
        #expect(lost.exit == 75)
        let error = try #require(try lost.json().error)
        #expect(error.code?.string == "link-lost")
        #expect(error.hint?.string?.contains("otaflash push fw.otaf --device 'sim:?pace=virtual' --trust") == true)
        #expect(error.hint?.firstLine?.hasSuffix(" --trust release.pub.pem") == true)

        let status = try await sandbox.run("status", "--device", "sim:?pace=virtual", "--format", "json").json()
        let offset = try #require(status.transfer?.offset?.number)
        #expect(offset > 0 && status.transfer?.manifest_sha256_prefix?.string?.count == 16)
        let resumed = try await sandbox.push("sim:?pace=virtual", "--resume")
        #expect(resumed.exit == 0)
        #expect(try resumed.json().transfer?.resumed_from?.number == offset)
        #expect(try resumed.json().transfer?.sent_bytes?.number == 20_000 - offset)
    }

    /// The hint removes only the injected fault from the device's address.
    @Test("the command in the hint of push keeps all options of the failed command")
    func whatIsToBeTypedKeepsWhatWasGiven() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let options = ["--no-confirm", "--no-downgrade", "--allow-demo-key"]
        func push(_ device: String, _ options: [String]) async throws -> (exit: Int32?, hint: String) {
            let run = try await sandbox.run(
                ["push", "fw.otaf", "--device", device, "--trust", "release.pub.pem", "--format", "json"] + options)
            return (run.exit, try run.json().error?.hint?.firstLine ?? "")
        }
        let line = "otaflash push fw.otaf --device 'sim:?pace=virtual' --trust release.pub.pem"
        let lost = try await push("sim:?gone-at=0.6&pace=virtual", options)
        #expect(lost.exit == 75 && lost.hint.hasSuffix("\(line) \(options.joined(separator: " "))"))
        let again = try await push("sim:?pace=virtual&gone-at=0.9", ["--resume", "--no-downgrade"])
        #expect(again.exit == 75 && again.hint.hasSuffix("\(line) --resume --no-downgrade"))

        try await sandbox.create("--trial", "0")
        let permanent = try await push("sim:kitchen?pace=virtual&gone-at=0.5", ["--permanent"])
        #expect(permanent.exit == 75 && permanent.hint.hasSuffix(" --permanent"))
        // --permanent and --no-confirm exclude each other.
        let noTrial = try await push("sim:kitchen?pace=virtual", ["--no-confirm"])
        #expect(noTrial.hint.hasSuffix(" --permanent") && !noTrial.hint.contains("--no-confirm"))
    }

    @Test(
        "a push continues the part of this bundle that the device holds, unless --restart is given",
        arguments: [([], true), (["--resume"], true), (["--restart"], false)])
    func continuesAnInterruptedPush(options: [String], continues: Bool) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.push("sim:?pace=virtual&gone-at=0.6").exit == 75)
        let run = try await sandbox.run(
            [
                "push", "fw.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", "--format", "json",
                "--progress", "lines",
            ]
                + options)
        #expect(
            run.exit == 0 && run.err.contains("The device discards a partial upload") == !continues, "\(run.err)")
        #expect((try run.json().transfer?.resumed_from?.number ?? 0 > 0) == continues)
        #expect(!run.err.contains("nothing to resume"))
    }

    @Test(
        "a part of another bundle is not continued, even if only the signed time differs",
        arguments: [[], ["--resume"]])
    func doesNotContinueAnotherBundle(options: [String]) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.push("sim:?pace=virtual&gone-at=0.6").exit == 75)
        let signed = try await sandbox.run(
            "sign", "fw.bin", "--key", "release.pem", "--product", "demo", "--version", "1.2.0", "-o", "other.otaf",
            env: ["SOURCE_DATE_EPOCH": "1"])
        #expect(signed.exit == 0, "\(signed.err)")
        let run = try await sandbox.run(
            [
                "push", "other.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", "--format", "json",
                "--progress", "lines",
            ]
                + options)
        #expect(run.exit == 0 && run.err.contains("The device discards a partial upload"), "\(run.err)")
        #expect(try run.json().transfer?.resumed_from?.number == 0)
        #expect(run.err.contains("nothing to resume") == !options.isEmpty)
    }

    @Test("push --resume warns if there is nothing to continue, and --resume with --restart is refused")
    func resumeExpectsAPart() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let words = [
            "push", "fw.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", "--progress", "lines",
            "--resume",
        ]
        #expect(try await sandbox.run(words + ["--restart"]).exit == 64)
        let run = try await sandbox.run(words)
        #expect(
            run.exit == 0
                && run.err.contains("Warning: nothing to resume: the device has no partial upload of this file"),
            "\(run.err)")
    }

    @Test(
        "push --resume warns that there is nothing to resume, also without progress",
        arguments: [["--quiet"], ["--progress", "none"]])
    func resumeWarnsWithoutProgress(options: [String]) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let words = ["push", "fw.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", "--resume"]
        let run = try await sandbox.run(words + options)
        #expect(run.exit == 0 && run.err.contains("warning: nothing to resume"), "\(run.err)")
    }

    @Test("push of a lower version is a warning as a JSON event, in lines, and with --quiet")
    func aDowngradeIsAWarning() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let text = "version 1.1.0 is lower than 9.0.0, the running version"
        for (options, line) in [
            (["--quiet"], "otaflash: warning: \(text)\n"), (["--progress", "none"], "otaflash: warning: \(text)\n"),
            (["--progress", "lines"], "Warning: \(text)\n"), (["--progress", "json"], nil),
        ] as [([String], String?)] {
            try await sandbox.run("simulate", "remove", "kitchen")
            let created = try await sandbox.run(
                "simulate", "create", "kitchen", "--product", "demo", "--version", "9.0.0", "--trust",
                "release.pub.pem")
            #expect(created.exit == 0, "\(created.err)")
            let run = try await sandbox.run(
                ["push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem"] + options)
            #expect(run.exit == 0, "\(run.err)")
            if let line { #expect(run.err.contains(line), "\(run.err)") }
            guard line == nil else { continue }
            let warnings = try run.events().filter { $0.event?.string == "warning" }
            #expect(warnings.map { $0.message?.string } == [text])
        }
    }

    /// The long connection interval ends the trial of 1 s before the confirmation arrives.
    @Test("push reports rolled-back when the trial ends before the confirmation")
    func reportsThatADeviceRolledBack() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 2000)
        try await sandbox.create("--trial", "1")
        let run = try await sandbox.push("sim:kitchen?pace=virtual&interval=300ms")
        #expect(run.exit == 78, "\(run.err)")
        #expect(try run.json().error?.code?.string == "rolled-back")
        let status = try await sandbox.run("status", "--device", "sim:kitchen?pace=virtual", "--format", "json").json()
        #expect(status.device?.running_version?.string == "1.0.0")
    }

    // MARK: The trial

    @Test("push --no-confirm leaves the image on trial until the confirm command")
    func isConfirmedByHand() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:?pace=virtual", "--trust", "release.pub.pem", "--no-confirm")
        #expect(run.exit == 0)
        #expect(run.out.contains("on trial") && run.out.contains("within 60 s"))
        #expect(run.out.contains("otaflash confirm --device 'sim:?pace=virtual'"))

        let status = try await sandbox.run("status", "--device", "sim:?pace=virtual", "--format", "json").json()
        #expect(status.device?.state?.string == "trial" && status.device?.confirmed?.bool == false)
        let again = try await sandbox.push("sim:?pace=virtual", "--restart")
        #expect(again.exit == 77)
        #expect(try again.json().error?.code?.string == "in-trial")

        let confirmed = try await sandbox.run("confirm", "--device", "sim:?pace=virtual", "--format", "json")
        #expect(confirmed.exit == 0)
        #expect(try confirmed.json().device?.confirmed?.bool == true)
        let twice = try await sandbox.run("confirm", "--device", "sim:?pace=virtual", "--format", "json")
        #expect(twice.exit == 77)
        #expect(try twice.json().error?.code?.string == "not-in-trial")
    }

    @Test("push --resume confirms an image on trial without a transfer")
    func isTakenUpBetweenTheLastByteAndTheConfirmation() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.push("sim:?pace=virtual", "--no-confirm").exit == 0)
        let run = try await sandbox.push("sim:?pace=virtual", "--resume")
        #expect(run.exit == 0)
        #expect(try run.json().device?.confirmed?.bool == true)
        #expect(try run.json().transfer?.sent_bytes?.number == 0)
    }

    @Test("discard returns a device on trial to its previous version")
    func isGivenUpByHand() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        #expect(try await sandbox.push("sim:?pace=virtual", "--no-confirm").exit == 0)
        let run = try await sandbox.run("discard", "--device", "sim:?pace=virtual", "--format", "json")
        #expect(run.exit == 0)
        let device = try #require(try run.json().device)
        #expect(device.running_version?.string == "0.0.0" && device.previous_version?.string == "1.1.0")
        #expect(device.state?.string == "idle")
    }

    @Test("push to a device without a trial requires --permanent")
    func isForGoodWhereThereIsNoTrial() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create("--trial", "0")
        let refused = try await sandbox.push("sim:kitchen?pace=virtual")
        #expect(refused.exit == 77)
        #expect(try refused.json().error?.code?.string == "no-trial")
        #expect(try refused.json().error?.hint?.string?.contains("--permanent") == true)
        #expect(try await sandbox.push("sim:kitchen?pace=virtual", "--permanent").exit == 0)

        let other = try await sandbox.push("sim:?pace=virtual", "--permanent")
        #expect(other.exit == 77)
        #expect(try other.json().error?.code?.string == "trial-available")
        #expect(try await sandbox.push("sim:?pace=virtual", "--permanent", "--no-confirm").exit == 64)
    }

    // MARK: Refusals

    static let refusals: [(bundle: [String], device: [String], query: String, code: String)] = [
        ([], ["--product", "kettle"], "", "wrong-product"),
        (["--hardware", "7"], [], "", "wrong-hardware"),
        (["--counter", "1"], ["--counter", "2"], "", "counter-too-low"),
        (["--requires", "1.1.0"], [], "", "requires-newer"),
        (["--minimum-battery", "50"], [], "&battery=10", "battery-low"),
        ([], ["--image-format", "esp-idf"], "", "wrong-image-format"),
        ([], ["--image-format", "mcuboot"], "", "wrong-image-format"),
        ([], ["--trust", "other.pub.pem"], "", "untrusted-by-device"),
    ]

    @Test("push reports why the device refuses a bundle, with a hint", arguments: refusals)
    func isRefused(refusal: (bundle: [String], device: [String], query: String, code: String)) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(options: refusal.bundle)
        try await sandbox.run("keygen", "other")
        try await sandbox.create(options: refusal.device)
        let run = try await sandbox.push("sim:kitchen?pace=virtual\(refusal.query)")
        #expect(run.exit == 77, "\(run.err)")
        let error = try #require(try run.json().error)
        #expect(error.code?.string == refusal.code)
        #expect(error.message?.string?.isEmpty == false && error.hint?.string?.isEmpty == false)
    }

    @Test(
        "push succeeds after the commands in the wrong-product hint create the virtual device again",
        arguments: [
            ([], "--product demo --version 0.0.0"),
            (["--hardware", "7..9", "--requires", "1.1.0"], "--product demo --version 1.1.0 --hardware 7"),
        ])
    func makesTheDeviceAgain(options: [String], device: String) async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(version: "1.2.0", options: options)
        try await sandbox.create("--product", "kettle")
        let refused = try await sandbox.push("sim:kitchen?pace=virtual")
        let hint = try #require(try refused.json().error?.hint?.firstLine)
        let commands =
            "otaflash simulate remove kitchen; otaflash simulate create kitchen \(device) --trust release.pub.pem"
        #expect(hint.hasSuffix("; or create the virtual device again: \(commands)"), "\(hint)")
        let made = try await sandbox.shell(commands.replacing("otaflash", with: "\"$0\""))
        #expect(made.exit == 0, "\(made.err)")
        #expect(try await sandbox.push("sim:kitchen?pace=virtual").exit == 0)
    }

    @Test("push refuses an image that is larger than the slot")
    func isRefusedWhereItDoesNotFit() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(size: 2_200_000)
        let run = try await sandbox.push()
        #expect(run.exit == 77)
        #expect(try run.json().error?.code?.string == "image-too-large")
    }

    @Test("push installs a lower version with a warning, and refuses it with --no-downgrade")
    func goesDownWithARemarkOrNotAtAll() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release(version: "0.9.0")
        try await sandbox.create()
        let words = ["push", "fw.otaf", "--device", "sim:kitchen?pace=virtual", "--trust", "release.pub.pem"]
        let refused = try await sandbox.run(words + ["--no-downgrade", "--format", "json"])
        #expect(refused.exit == 77)
        #expect(try refused.json().error?.code?.string == "downgrade")
        let run = try await sandbox.run(words)
        #expect(run.exit == 0 && run.err.contains("0.9.0 is lower than 1.0.0"))
    }

    @Test("push verifies the bundle before it creates or contacts the device")
    func verifiesFirst() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.run("keygen", "other")
        let run = try await sandbox.run(
            "push", "fw.otaf", "--device", "sim:", "--trust", "other.pub.pem", "--format", "json")
        #expect(run.exit == 77)
        #expect(try run.json().error?.code?.string == "untrusted-key")
        #expect(!sandbox.exists("state/demo"), "an unverified bundle created a virtual device")
    }

    @Test("push to a virtual device accepts a trusted demo key without --allow-demo-key")
    func takesTheDemoKey() async throws {
        let sandbox = try Sandbox()
        try sandbox.write("fw.bin", [1, 2, 3])
        try sandbox.takeDemoKey()
        try await sandbox.run(
            "sign", "fw.bin", "--key", "demo.pem", "--product", "demo", "--version", "1.0.0", "-o", "fw.otaf")
        let words = ["push", "fw.otaf", "--device", "sim:?pace=virtual"]
        #expect(try await sandbox.run(words).exit == 77, "the demo key is not in the trust store")
        #expect(try await sandbox.run(words + ["--trust", "demo.pub.pem"]).exit == 0)
    }

    /// The image of the demonstration; the device is created without --image-format.
    @Test("push sends an ESP-IDF image to a device that was created without an image format")
    func sendsAnESPIDFImage() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        let image = Sandbox.sample("acme-thermostat-1.1.0.bin")
        try await sandbox.run("sign", image, "--key", "release.pem", "-o", "fw.otaf", "--force")
        try await sandbox.create("--product", "acme-thermostat")
        let run = try await sandbox.push("sim:kitchen?pace=virtual")
        #expect(run.exit == 0, "\(run.err)")
        try await sandbox.run("simulate", "remove", "kitchen")
        try await sandbox.create("--product", "acme-thermostat", "--image-format", "raw")
        #expect(try await sandbox.push("sim:kitchen?pace=virtual").json().error?.code?.string == "wrong-image-format")
    }
}

import Glibc
import Subprocess
import Testing

/// Virtual SMP devices over the modelled radio: complete updates, and refusals with their exit codes.
@Suite("Commands for virtual SMP devices") struct SMPTests {
    private static func sandbox(_ options: String..., size: Int = 20_000) async throws -> Sandbox {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot(size: size)
        try await sandbox.create(options: ["--protocol", "smp"] + options)
        return sandbox
    }

    private static let device = "sim:kitchen?pace=virtual"

    @Test("push of an MCUboot image ends confirmed, and a second push sends nothing")
    func anImageIsPushedConfirmedAndNotSentTwice() async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.push(Self.device, image: "fw.signed.bin")
        #expect(run.exit == 0, "\(run.err)")
        let json = try run.json()
        #expect(json.outcome?.string == "confirmed" && json.protocol?.string == "smp")
        #expect(json.device?.running_version?.string == "1.1.0" && json.device?.previous_version?.string == "1.0.0")
        #expect(json.device?.confirmed?.bool == true && json.device?.hardware == nil)
        #expect(json.image?.version?.string == "1.1.0" && json.image?.authorization?.string == "signature")
        #expect(json.bundle == nil && json.transfer?.sent_bytes?.number == json.image?.size?.number)
        let again = try await sandbox.push(Self.device, image: "fw.signed.bin")
        #expect(again.exit == 0)
        #expect(try again.json().outcome?.string == "already-running")
    }

    @Test(
        "a device with one slot needs --permanent, ends returned, and a push that begins in its loader is never already running"
    )
    func oneSlot() async throws {
        let sandbox = try await Self.sandbox("--without", "second-slot")
        let refused = try await sandbox.push(Self.device, image: "fw.signed.bin")
        #expect(refused.exit == 77 && refused.err.contains("--permanent"))
        #expect(try refused.json().error?.code?.string == "no-trial")
        let status = try await sandbox.run("status", "--device", Self.device, "--format", "json")
        #expect(try status.json().device?.state?.string == "unknown", "\(status.out)")
        let run = try await sandbox.push(Self.device, image: "fw.signed.bin", "--permanent")
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().outcome?.string == "returned" && run.json().device?.running_version == nil)
        let text = try await sandbox.run(
            "push", "fw.signed.bin", "--device", Self.device, "--trust", "release.pub.pem", "--permanent")
        #expect(text.exit == 0 && text.out.contains("has received 1.1.0 and left its firmware loader"), "\(text.out)")
        let discarded = try await sandbox.run("discard", "--device", Self.device)
        #expect(discarded.exit == 76 && discarded.err.contains("hint: push a complete image"), "\(discarded.err)")
        #expect(try await sandbox.run("confirm", "--device", Self.device).exit == 77)
    }

    @Test("with --first 1, a device with one slot that ends returned ends the push, and status names a firmware loader")
    func severalWithOneSlot() async throws {
        let sandbox = try await Self.sandbox("--without", "second-slot")
        let created = try await sandbox.run(
            "simulate", "create", "hall", "--protocol", "smp", "--without", "second-slot", "--product", "demo",
            "--version", "1.0.0", "--trust", "release.pub.pem")
        #expect(created.exit == 0, "\(created.err)")
        let both = ["--device", Self.device, "--device", "sim:hall?pace=virtual"]
        let push = ["--permanent", "--first", "1", "--format", "json", "--progress", "none"]
        let run = try await sandbox.run(["push", "fw.signed.bin", "--trust", "release.pub.pem"] + both + push)
        #expect(run.exit == 75, "\(run.err)")
        #expect(try run.json().devices?.array?.map { $0.outcome?.string } == ["returned", "not-started"])
        #expect(try run.json().error?.hint?.string?.contains("push to the others with --first 0\n") == true)
        try await sandbox.mcuboot(key: "other", as: "other.bin")
        _ = try await sandbox.run(
            "push", "other.bin", "--device", Self.device, "--trust", "other.pub.pem", "--permanent")
        let status = try await sandbox.run(["status"] + both)
        #expect(status.out.contains("firmware loader") && !status.out.contains("confirmed"), "\(status.out)")
    }

    @Test(
        "an image that the bootloader does not boot ends image-not-running (78), and status shows the firmware loader")
    func oneSlotWithAWrongKey() async throws {
        let sandbox = try await Self.sandbox("--without", "second-slot")
        try await sandbox.mcuboot(key: "other", as: "other.bin")
        let run = try await sandbox.run(
            "push", "other.bin", "--device", Self.device, "--trust", "other.pub.pem", "--permanent", "--format", "json")
        #expect(run.exit == 78, "\(run.err)")
        #expect(try run.json().error?.code?.string == "image-not-running")
        let status = try await sandbox.run("status", "--device", Self.device, "--format", "json")
        #expect(try status.json().device?.state?.string == "loader", "\(status.out)")
        let shown = try await sandbox.run("status", "--device", Self.device)
        #expect(shown.out.contains("its firmware loader, which waits for an image"), "\(shown.out)")
        let repaired = try await sandbox.push(Self.device, image: "fw.signed.bin", "--permanent")
        #expect(try repaired.json().outcome?.string == "returned", "\(repaired.err)")
    }

    @Test("a named base is reported in a note, because SMP does not support encoded images")
    func base() async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.push(Self.device, image: "fw.signed.bin", "--base", "fw.bin")
        #expect(run.exit == 0, "\(run.err)")
        #expect(run.err == "otaflash: note: no base from fw.bin: SMP does not support encoded images\n")
    }

    @Test("an image stays on trial until confirm or discard, and another image is refused meanwhile")
    func aTrialLastsUntilItIsConfirmedOrGivenUp() async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.push(Self.device, image: "fw.signed.bin", "--no-confirm")
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().outcome?.string == "on-trial")
        let status = try await sandbox.run("status", "--device", "sim:kitchen", "--format", "json")
        #expect(try status.json().device?.state?.string == "trial")
        try await sandbox.mcuboot(version: "1.2.0", as: "next.bin")
        let other = try await sandbox.push(Self.device, image: "next.bin")
        #expect(other.exit == 77)
        #expect(try other.json().error?.code?.string == "in-trial")
        let discarded = try await sandbox.run("discard", "--device", Self.device, "--format", "json")
        #expect(discarded.exit == 0, "\(discarded.err)")
        #expect(try discarded.json().device?.running_version?.string == "1.0.0")
        #expect(try await sandbox.run("confirm", "--device", Self.device).exit == 77)
        #expect(try await sandbox.push(Self.device, image: "fw.signed.bin", "--no-confirm").exit == 0)
        let confirmed = try await sandbox.run("confirm", "--device", Self.device, "--format", "json")
        #expect(confirmed.exit == 0, "\(confirmed.err)")
        #expect(try confirmed.json().device?.running_version?.string == "1.1.0")
    }

    @Test("--upload-only does not boot the image, and --permanent boots the uploaded image without a new transfer")
    func itMayBeForGoodAtOnceOrForNoStartAtAll() async throws {
        let sandbox = try await Self.sandbox()
        let held = try await sandbox.push(Self.device, image: "fw.signed.bin", "--upload-only")
        #expect(held.exit == 0, "\(held.err)")
        #expect(try held.json().outcome?.string == "uploaded")
        #expect(try held.json().device?.running_version?.string == "1.0.0")
        let staged = try await sandbox.run("status", "--device", Self.device, "--format", "json").json()
        #expect(staged.slots?[0]?.version?.string == "1.0.0" && staged.slots?[0]?.active?.bool == true)
        #expect(staged.slots?[1]?.version?.string == "1.1.0" && staged.slots?[1]?.slot?.number == 1)
        #expect(staged.slots?[1]?.pending?.bool == false && staged.slots?[1]?.sha256?.string?.count == 64)
        let text = try await sandbox.run("status", "--device", Self.device).out
        #expect(
            text.contains("; not marked for boot\n") && text.contains("Slot 0") && text.contains("; runs, confirmed\n"),
            "\(text)")
        let permanent = try await sandbox.push(Self.device, image: "fw.signed.bin", "--permanent")
        #expect(permanent.exit == 0, "\(permanent.err)")
        // The device already has the image.
        #expect(try permanent.json().transfer?.sent_bytes?.number == 0)
        #expect(try permanent.json().device?.running_version?.string == "1.1.0")
    }

    @Test("--upload-only of the image on trial reports the trial")
    func uploadOnlyOfTheImageOnTrial() async throws {
        let sandbox = try await Self.sandbox()
        #expect(try await sandbox.push(Self.device, image: "fw.signed.bin", "--no-confirm").exit == 0)
        let push = try await sandbox.push(Self.device, image: "fw.signed.bin", "--upload-only")
        #expect(push.exit == 0, "\(push.err)")
        #expect(try push.json().outcome?.string == "on-trial" && push.json().device?.state?.string == "trial")
        #expect(try push.json().device?.running_version?.string == "1.1.0")
    }

    @Test("discard over SMP reports the erased slot and the image that it held")
    func discardReportsWhatItErased() async throws {
        let sandbox = try await Self.sandbox()
        for _ in 1...2 {
            #expect(try await sandbox.push(Self.device, image: "fw.signed.bin", "--upload-only").exit == 0)
            let slots = try await sandbox.run("status", "--device", Self.device, "--format", "json").json().slots
            let digest = try #require(slots?[1]?.sha256?.string)
            let refused = try await sandbox.run("discard", "--device", Self.device)
            #expect(refused.exit == 77 && refused.err.contains("[slot-holds-image]"), "\(refused.err)")
            let hint = "hint: to erase it: otaflash discard --device 'sim:kitchen?pace=virtual' --erase;"
            #expect(refused.err.contains(hint), "\(refused.err)")
            let json = try await sandbox.run("discard", "--device", Self.device, "--erase", "--format", "json").json()
            #expect(json.erased?.members == ["empty", "image", "sha256", "slot", "version"])
            #expect(json.erased?.version?.string == "1.1.0" && json.erased?.slot?.number == 1)
            #expect(json.erased?.sha256?.string == digest && json.device?.running_version?.string == "1.0.0")
        }
        #expect(try await sandbox.push(Self.device, image: "fw.signed.bin", "--upload-only").exit == 0)
        let held = try await sandbox.run("discard", "--device", Self.device, "--erase")
        #expect(held.out.contains("erased slot 1, which held version 1.1.0, SHA-256 "), "\(held.out)")
        let none = try await sandbox.run("discard", "--device", Self.device)
        #expect(none.out.contains("had an empty slot 1, with nothing to erase, and runs 1.0.0"), "\(none.out)")
        let json = try await sandbox.run("discard", "--device", Self.device, "--format", "json").json()
        #expect(json.erased?.members == ["empty", "image", "slot"] && json.erased?.empty?.bool == true)
    }

    @Test("an image with an untrusted key is refused by push, and by the bootloader after --unverified-image")
    func aKeyThatTheDeviceDoesNotTrust() async throws {
        let sandbox = try await Self.sandbox()
        try await sandbox.mcuboot(key: "stranger", as: "foreign.bin")
        let refused = try await sandbox.push(Self.device, image: "foreign.bin")
        #expect(refused.exit == 77)
        #expect(try refused.json().error?.code?.string == "untrusted-key")
        #expect(try refused.json().error?.hint?.string?.contains("--unverified-image") == true)
        // The bootloader refuses the image even with the consent of the user.
        let run = try await sandbox.push(Self.device, image: "foreign.bin", "--unverified-image")
        #expect(run.exit == 78 && run.err.contains("foreign.bin is not signed by a trusted key"), "\(run.err)")
        #expect(try run.json().error?.code?.string == "rolled-back")
        let status = try await sandbox.run("status", "--device", Self.device, "--format", "json")
        #expect(try status.json().device?.running_version?.string == "1.0.0")
    }

    @Test("the hint of push depends on the content of the file, not on its name")
    func theHintGoesByWhatTheFileIs() async throws {
        let sandbox = try await Self.sandbox()
        try await sandbox.mcuboot(key: "stranger", as: "image.otaf")
        let image = try await sandbox.push(Self.device, image: "image.otaf")
        #expect(image.exit == 77)
        #expect(try image.json().error?.hint?.string?.contains("--unverified-image") == true)
        let signed = try await sandbox.run(
            "sign", "image.otaf", "--key", "stranger.pem", "--product", "demo", "-o", "bundle.bin")
        #expect(signed.exit == 0, "\(signed.err)")
        let bundle = try await sandbox.push(Self.device, image: "bundle.bin")
        #expect(bundle.exit == 77)
        #expect(try bundle.json().error?.code?.string == "untrusted-key")
        #expect(try bundle.json().error?.hint?.string?.contains("--unverified-image") == false)
    }

    @Test("--unverified-image sends an image without a trusted key and reports the consent")
    func consentNeedsNoTrustedKey() async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.run(
            "push", "fw.signed.bin", "--device", Self.device, "--unverified-image", "--format", "json", "--progress",
            "none")
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().image?.authorization?.string == "consent")
        #expect(try run.json().image?.unverified?.string == "untrusted-key")
    }

    @Test("push refuses an image that is too large, a downgrade with --no-downgrade, and a raw image")
    func whatDoesNotFitIsRefusedEarly() async throws {
        let sandbox = try await Self.sandbox(size: 2 << 20)
        let large = try await sandbox.push(Self.device, image: "fw.signed.bin")
        #expect(large.exit == 77, "\(large.err)")
        #expect(try large.json().error?.code?.string == "image-too-large")
        try await sandbox.mcuboot(version: "0.9.0", as: "old.bin")
        let old = try await sandbox.push(Self.device, image: "old.bin", "--no-downgrade")
        #expect(old.exit == 77)
        #expect(try old.json().error?.code?.string == "downgrade")
        #expect(try await sandbox.push(Self.device, image: "old.bin").exit == 0)
        try sandbox.write("raw.bin", Sandbox.image(1000))
        let raw = try await sandbox.push(Self.device, image: "raw.bin")
        #expect(raw.exit == 65)
        #expect(try raw.json().error?.hint?.string?.contains("otaflash sign --as mcuboot raw.bin") == true)
    }

    /// The device does not report its buffers or its slots. It does not reassemble packets.
    @Test("push to a device without parameters, slots and reassembly uses chunks of 244 bytes")
    func aDeviceThatCanDoLittle() async throws {
        let sandbox = try await Self.sandbox(
            "--without", "parameters", "--without", "reassembly", "--without", "slots", "--buffers", "2")
        let run = try await sandbox.push(Self.device, image: "fw.signed.bin")
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().transfer?.chunk_size?.number == 244)
    }

    @Test("push to a device that cannot mark images is refused, except with --upload-only")
    func aDeviceThatCannotMarkImages() async throws {
        let sandbox = try await Self.sandbox("--without", "marks")
        let run = try await sandbox.push(Self.device, image: "fw.signed.bin")
        #expect(run.exit == 76)
        #expect(try run.json().error?.code?.string == "unsupported-device")
        let hint = try #require(run.json().error?.hint?.string)
        #expect(hint.contains(" --upload-only; then restart the device: otaflash restart --device "), "\(hint)")
        let held = try await sandbox.push(Self.device, image: "fw.signed.bin", "--upload-only")
        #expect(held.exit == 0, "\(held.err)")
        let restarted = try await sandbox.run("restart", "--device", Self.device, "--format", "json")
        #expect(restarted.exit == 0, "\(restarted.err)")
    }

    @Test("restart is refused by a device with the OTA profile with 76")
    func restartIsRefused() async throws {
        let sandbox = try Sandbox()
        try await sandbox.release()
        try await sandbox.create()
        let run = try await sandbox.run("restart", "--device", Self.device, "--format", "json")
        #expect(run.exit == 76)
        #expect(try run.json().error?.code?.string == "unsupported-device")
    }

    @Test("push resumes after broken links, and reports link-lost when the device is gone")
    func aLinkThatBreaksIsResumed() async throws {
        let sandbox = try await Self.sandbox(size: 100_000)
        let run = try await sandbox.push(Self.device + "&drop-at=0.3,0.6&loss=0.1", image: "fw.signed.bin")
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().transfer?.disconnects?.number == 2)
        try await sandbox.mcuboot(version: "1.2.0", as: "next.bin")
        let gone = try await sandbox.push(Self.device + "&gone-at=0.5", image: "next.bin")
        #expect(gone.exit == 75, "\(gone.err)")
        #expect(try gone.json().error?.code?.string == "link-lost")
    }

    @Test("push of an MCUboot image to sim: creates the device sim:demo")
    func thePlainAddressMakesADevice() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        let run = try await sandbox.push("sim:?pace=virtual", image: "fw.signed.bin")
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().device?.address?.string == "sim:demo")
    }

    // MARK: Bundles and images

    @Test("a bundle is accepted over SMP only if its image is an MCUboot image")
    func aBundleGoesWhereItsImageFits() async throws {
        let sandbox = try await Self.sandbox()
        try await sandbox.release()
        let raw = try await sandbox.push(Self.device)
        #expect(raw.exit == 77, "\(raw.err)")
        #expect(try raw.json().error?.code?.string == "wrong-image-format")
        let signed = try await sandbox.run(
            "sign", "fw.signed.bin", "--key", "release.pem", "--product", "demo", "-o", "mcuboot.otaf")
        #expect(signed.exit == 0, "\(signed.err)")
        let run = try await sandbox.push(Self.device, bundle: "mcuboot.otaf")
        #expect(run.exit == 0, "\(run.err)")
        let json = try run.json()
        #expect(json.bundle?.product?.string == "demo" && json.protocol?.string == "smp")
    }

    /// Pushes a bundle of the image, made with these options of `sign`.
    private func pushBundle(_ sandbox: Sandbox, _ sign: [String], _ push: String...) async throws -> Run {
        let signed = try await sandbox.run(
            ["sign", "fw.signed.bin", "--key", "release.pem", "-o", "mcuboot.otaf", "--force"] + sign)
        #expect(signed.exit == 0, "\(signed.err)")
        return try await sandbox.push(Self.device, image: "mcuboot.otaf", push[...])
    }

    private func runs(_ version: String, _ sandbox: Sandbox) async throws -> Bool {
        let status = try await sandbox.run("status", "--device", Self.device, "--format", "json")
        return try status.json().device?.running_version?.string == version
    }

    @Test("over SMP, --unchecked-target does not accept a bundle for another product or an older running version")
    func aBundleForAnotherDeviceIsRefused() async throws {
        let sandbox = try await Self.sandbox()
        let product = try await pushBundle(sandbox, ["--product", "toaster"], "--unchecked-target")
        #expect(product.exit == 77)
        #expect(try product.json().error?.code?.string == "wrong-product")
        let version = try await pushBundle(
            sandbox, ["--product", "demo", "--requires", "1.0.1"], "--unchecked-target")
        #expect(version.exit == 77)
        #expect(try version.json().error?.code?.string == "requires-newer")
        #expect(try await runs("1.0.0", sandbox))
    }

    @Test("over SMP, push succeeds after the commands in the wrong-product hint create the virtual device again")
    func makesTheDeviceAgain() async throws {
        let sandbox = try await Self.sandbox()
        let refused = try await pushBundle(sandbox, ["--product", "toaster"])
        let hint = try #require(try refused.json().error?.hint?.firstLine)
        let commands =
            "otaflash simulate remove kitchen; otaflash simulate create kitchen --protocol smp --product toaster "
            + "--version 0.0.0 --trust release.pub.pem"
        #expect(hint.hasSuffix("; or create the virtual device again: \(commands)"), "\(hint)")
        #expect(hint.contains("otaflash sign IMAGE --key KEY --product demo -o NEW.otaf; "), "\(hint)")
        let made = try await sandbox.shell(commands.replacing("otaflash", with: "\"$0\""))
        #expect(made.exit == 0, "\(made.err)")
        #expect(try await pushBundle(sandbox, ["--product", "toaster"]).exit == 0)
    }

    @Test("over SMP, fields that cannot be checked are refused with 77 until --unchecked-target accepts them")
    func uncheckedFieldsNeedAnOption() async throws {
        let sandbox = try await Self.sandbox()
        let fields = ["--product", "demo", "--hardware", "7", "--minimum-battery", "90", "--counter", "3"]
        let refused = try await pushBundle(sandbox, fields)
        #expect(refused.exit == 77)
        let error = try refused.json().error
        #expect(error?.code?.string == "target-unchecked")
        #expect(error?.message?.string?.contains("hardware, security_counter, minimum_battery") == true)
        #expect(error?.hint?.string?.contains("--unchecked-target") == true)
        #expect(try await runs("1.0.0", sandbox))
        let accepted = try await pushBundle(sandbox, fields, "--unchecked-target")
        #expect(accepted.exit == 0, "\(accepted.err)")
        #expect(
            try accepted.json().unchecked?.array?.compactMap(\.string) == [
                "hardware", "security_counter", "minimum_battery",
            ])
        // A push of the same image changes nothing, so it is not refused. A bundle for another product is an error also then.
        #expect(try await pushBundle(sandbox, fields).json().outcome?.string == "already-running")
        let other = try await pushBundle(sandbox, ["--product", "toaster"])
        #expect(try other.exit == 77 && other.json().error?.code?.string == "wrong-product", "\(other.out)")
    }

    @Test("over SMP, a device that does not report its board accepts a bundle only with --unchecked-target")
    func aDeviceWithoutABoardName() async throws {
        let sandbox = try await Self.sandbox("--without", "board")
        let refused = try await pushBundle(sandbox, ["--product", "demo"])
        #expect(refused.exit == 77)
        #expect(try refused.json().error?.code?.string == "target-unchecked")
        #expect(try await runs("1.0.0", sandbox))
        let accepted = try await pushBundle(sandbox, ["--product", "demo"], "--unchecked-target")
        #expect(accepted.exit == 0, "\(accepted.err)")
        #expect(try accepted.json().unchecked?.array?.compactMap(\.string) == ["product"])
    }

    @Test("a device with the OTA profile refuses MCUboot images, --protocol smp and --upload-only")
    func anImageDoesNotGoToADeviceWithTheProfile() async throws {
        let sandbox = try Sandbox()
        try await sandbox.mcuboot()
        try await sandbox.create()
        let run = try await sandbox.push(Self.device, image: "fw.signed.bin")
        #expect(run.exit == 77)
        #expect(try run.json().error?.code?.string == "wrong-image-format")
        #expect(
            try run.json().error?.hint?.firstLine?.hasSuffix(
                "otaflash simulate remove kitchen; otaflash simulate create kitchen --protocol smp --product demo --version 0.0.0 "
                    + "--trust release.pub.pem") == true, "\(run.err)")
        let status = try await sandbox.run("status", "--device", Self.device, "--format", "json")
        #expect(try status.json().protocol?.string == "ota")
        let forced = try await sandbox.run("status", "--device", Self.device, "--protocol", "smp", "--format", "json")
        #expect(forced.exit == 76)
        #expect(try forced.json().error?.code?.string == "unsupported-device")
        #expect(try forced.json().error?.message?.string?.contains("offers only GATT OTA profile") == true)
        #expect(try forced.json().error?.hint?.string?.hasSuffix("otaflash status --device '\(Self.device)'") == true)
        try await sandbox.release()
        let bundle = try await sandbox.push(Self.device, "--protocol", "smp")
        #expect(try bundle.json().error?.code?.string == "unsupported-device")
        let held = try await sandbox.push(Self.device, "--upload-only")
        #expect(held.exit == 76)
        #expect(try held.json().error?.code?.string == "unsupported-device")
        #expect(try held.json().error?.hint?.string?.contains("omit --upload-only: otaflash push") == true)
    }

    @Test("identify is refused by an SMP device with 76")
    func identifyIsRefused() async throws {
        let sandbox = try await Self.sandbox()
        let run = try await sandbox.run("identify", "--device", Self.device, "--format", "json")
        #expect(run.exit == 76)
        #expect(try run.json().error?.hint?.string?.contains("identify requires the GATT OTA profile") == true)
        #expect(try run.json().error?.code?.string == "unsupported-device")
    }

    // MARK: Create and list

    @Test("simulate list shows an SMP device with its protocol and product and without hardware")
    func aListTellsThem() async throws {
        let sandbox = try await Self.sandbox()
        let list = try await sandbox.run("simulate", "list", "--format", "json")
        let device = try list.json().devices?[0]
        #expect(device?.protocol?.string == "smp" && device?.product?.string == "demo" && device?.hardware == nil)
    }

    @Test(
        "simulate create refuses options of the other protocol with 64",
        arguments: [
            ["--protocol", "smp", "--hardware", "2"], ["--protocol", "smp", "--trial", "5"], ["--buffers", "2"],
            ["--without", "marks"],
        ])
    func optionsOfTheOtherKindAreRefused(_ options: [String]) async throws {
        let sandbox = try Sandbox()
        #expect(try await sandbox.run("keygen", "release").exit == 0)
        let run = try await sandbox.run(
            ["simulate", "create", "x", "--product", "p", "--version", "1.0.0", "--trust", "release.pub.pem"] + options)
        #expect(run.exit == 64, "\(run.err)")
    }
}

import ArgumentParser
import OTAFirmware
import OTASigning
import OTASimulator
import OTAUpdate

struct Push: DeviceVerb {
    static let name = "push"
    static let isLong = true
    static let configuration = CommandConfiguration(
        commandName: name,
        abstract: "Update a device: send a bundle or an MCUboot image, have it tried, and confirm it.",
        discussion: """
            What is sent is verified before. A bundle goes to devices with the GATT OTA profile, an MCUboot image to devices \
            that speak SMP (MCUmgr). A lost link is resumed within one run; what an earlier run \
            left on the device is taken up with --resume, and given up without it. A device that does not come up with \
            the new image goes back to the old one by itself.
            """)

    @Argument(help: "A bundle; or an MCUboot image, such as zephyr.signed.bin.", completion: .file())
    var file: String

    @OptionGroup var target: DeviceOptions
    @OptionGroup var trust: TrustOptions

    @Flag(help: "Go on from where an earlier run stopped.")
    var resume = false

    @Flag(help: "Leave the new image on trial; 'otaflash confirm' makes it stay.")
    var noConfirm = false

    @Flag(help: "Make the image stay at once: for a device that has no trial, and so no way back.")
    var permanent = false

    @Flag(help: "Leave the image in the device's other slot, marked for no start; SMP only.")
    var uploadOnly = false

    @Flag(help: "Refuse a version lower than the one that runs.")
    var noDowngrade = false

    @Flag(help: "Take a bundle that only the demo key has signed; for sim: that needs no leave.")
    var allowDemoKey = false

    @Flag(help: "Send an MCUboot image that no trusted key has signed: you answer for it yourself.")
    var unverifiedImage = false

    @Flag(help: "Over SMP: accept a bundle although SMP cannot check all of its fields against the device.")
    var uncheckedTarget = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        let endings = [(noConfirm, "--no-confirm"), (permanent, "--permanent"), (uploadOnly, "--upload-only")]
            .filter(\.0).map { "'\($0.1)'" }
        if endings.count > 1 { throw ValidationError("\(endings[0]) and \(endings[1]) exclude each other.") }
    }

    var invocation: Invocation {
        var invocation = Invocation(command: Self.name, file: file, target, trust: trust.trust)
        let flags = [
            (resume, "--resume"), (noConfirm, "--no-confirm"), (permanent, "--permanent"),
            (uploadOnly, "--upload-only"), (noDowngrade, "--no-downgrade"), (allowDemoKey, "--allow-demo-key"),
            (unverifiedImage, "--unverified-image"), (uncheckedTarget, "--unchecked-target"),
        ]
        invocation.options = flags.filter(\.0).map(\.1)
        return invocation
    }

    func answer(_ console: Console) async throws -> PushAnswer {
        let address = try target.address()
        let read = try UpdateFile(parsing: WholeFile.contents(of: file))
        let store = try trustedKeys(console)
        let verifier = Verifier(
            trust: store, policy: TrustPolicy(allowsDemoKey: allowDemoKey || address.isSimulated))
        let update = try accepted(read, verifier)
        warn(of: update, console)
        let invocation = invocation(for: update)
        do {
            let outcome = try await Wiring(console: console, invocation: invocation)
                .perform(.push(update, request), on: target, trust: store)
            return PushAnswer(update, outcome, invocation)
        } catch let error as UpdateError {
            throw Failure(error, in: invocation)
        }
    }

    /// With the virtual device that would accept the bundle, for hints.
    private func invocation(for update: VerifiedUpdate) -> Invocation {
        var invocation = invocation
        guard let name = invocation.virtualDevice, case .bundle(let bundle) = update else { return invocation }
        let manifest = bundle.bundle.envelope.manifest
        let isSMP = (try? VirtualDevices().store.updateProtocol(of: name)) == .smp
        var options = isSMP ? ["--protocol", "smp"] : []
        options += ["--product", manifest.product.text, "--version", manifest.requires?.description ?? "0.0.0"]
        if !isSMP, let hardware = manifest.hardware?.ranges.first?.lowerBound {
            options += ["--hardware", "\(hardware)"]
        }
        invocation.acceptingDevice = options + trust.trust.flatMap { ["--trust", $0] }
        return invocation
    }

    private func accepted(_ file: UpdateFile, _ verifier: Verifier) throws(Failure) -> VerifiedUpdate {
        do throws(VerificationError) {
            return try unverifiedImage ? file.acceptedUnverified(by: verifier) : file.verified(by: verifier)
        } catch {
            var invocation = invocation
            if case .images = file { invocation.hasImages = true }
            throw Failure(error, in: invocation)
        }
    }

    private var request: PushRequest {
        let ending: PushRequest.Ending =
            permanent ? .permanent : noConfirm ? .trial : uploadOnly ? .uploadOnly : .confirm
        return PushRequest(
            resume: resume, ending: ending, refusesDowngrade: noDowngrade, acceptsUncheckedTarget: uncheckedTarget)
    }

    /// Who answers for an image themselves need not trust anybody.
    private func trustedKeys(_ console: Console) throws(KeyError) -> TrustStore {
        do throws(KeyError) { return try trust.store(console) } catch {
            guard unverifiedImage, error.code == .noTrustedKey else { throw error }
            return try TrustStore([])
        }
    }

    private func warn(of update: VerifiedUpdate, _ console: Console) {
        guard case .images(let images) = update else { return }
        for image in images {
            guard case .consent(let consent) = image.image.authorization else { continue }
            console.warn(
                "nobody whom you trust answers for \(file): \(consent.context). It is whole, but whether it is what its vendor "
                    + "made only you can know")
        }
    }
}

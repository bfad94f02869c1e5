import ArgumentParser
import OTAClient
import OTAFirmware
import OTAProtocol
import OTASigning
import OTASimulator
import OTAUpdate
import SystemPackage

/// The command `push`, which updates a device.
struct Push: DeviceCommand {
    static let name = "push"
    static let isLong = true
    static let hasPhases = true
    static let configuration = CommandConfiguration(
        commandName: name,
        abstract: "Install a bundle or an MCUboot image on a device.",
        discussion: """
            Example: otaflash push app.bin.otaf --device ble:AA:BB:CC:DD:EE:FF
                     otaflash push app.bin.otaf --device sim: --trust release.pub.pem
                     otaflash push app.bin.otaf --device sim: --trust release.pub.pem \\
                       --dry-run

            push verifies the file, uploads it, starts the new image on trial and confirms it. If the new image does not \
            start, the device rolls back to the old image (exit 78). After an interruption, run the same command again: it \
            resumes the partial upload, or confirms the new image.

            To update several devices, repeat --device, or give --device-file or --all. After a failure, run the same command \
            again. To update only the devices that failed, give the file of --report to --failed-from.
            """)

    @Argument(
        help: "A bundle (app.bin.otaf), an MCUboot image, or a zip for nRF Connect Device Manager.",
        completion: .file())
    var file: String

    @OptionGroup var targets: PushTargets
    @OptionGroup var trust: TrustOptions

    @Option(
        help: ArgumentHelp(
            TrustOptions.signaturesHelp, discussion: TrustOptions.signaturesManual, valueName: "n"),
        transform: WholeNumber.in(1...4))
    var signatures: Int?

    @Option(
        help: ArgumentHelp(
            "An image that the device may run, for a delta: a file or a folder of bundles; repeatable.",
            discussion:
                "If the device runs one of these images and accepts deltas, push sends a delta that saves at least 5 %. Default: "
                + "the paths in $OTAFLASH_BASES, separated by ':'; if $OTAFLASH_BASES is not set, the folder "
                + "~/.local/share/otaflash/bases.",
            valueName: "path"),
        completion: .file())
    var base: [String] = []

    @Flag var flags: [PushFlag] = []

    @OptionGroup(title: "Output options") var options: OutputOptions

    @Flag(help: "Also write the firmware's bytes to the file of --log.")
    var logData = false

    var target: DeviceOptions { targets.devices.one }
    var device: String? { targets.areMany ? nil : target.device }

    func validate() throws {
        guard !logData || options.log != nil else { throw ValidationError("--log-data requires --log.") }
        let endings = given.filter { $0.ending != nil }.map { "'\($0.argument)'" }
        let resumes = given.filter { $0.resume != nil }.map { "'\($0.argument)'" }
        for words in [endings, resumes] where words.count > 1 {
            throw ValidationError("\(words[0]) and \(words[1]) cannot be used together.")
        }
        guard signatures == nil || !flags.contains(.unverifiedImage) else {
            throw ValidationError("'--signatures' and '--unverified-image' cannot be used together.")
        }
        guard base.isEmpty || !flags.contains(.plain) else {
            throw ValidationError("'--base' and '--plain' cannot be used together.")
        }
    }

    /// True if the file of `--report` has the list of the devices. A failure before the first device must not replace the list.
    var keepsReport: Bool { OutputOptions.areSame(targets.failedFrom, options.report) }

    /// The flags that the user gave, each once, in the order of the help.
    private var given: [PushFlag] { PushFlag.allCases.filter(flags.contains) }

    var invocation: Invocation {
        var invocation = Invocation(command: Self.name, file: file, target, trust: trust.trust)
        if let signatures { invocation.options += ["--signatures", "\(signatures)"] }
        invocation.options += given.map(\.argument) + base.flatMap { ["--base", $0] }
        if targets.areMany {
            invocation.device = nil
            invocation.adapter = nil
            invocation.options = targets.words + invocation.options
        }
        return invocation
    }

    func answer(_ console: Console) async throws -> AnyAnswer {
        var console = console
        if logData { console.loggedData = .bytes }
        let begun = ContinuousClock.now
        let usedTime: @Sendable () -> Duration = { begun.duration(to: .now) }
        let addresses = try targets.areMany ? targets.addresses() : [target.address()]
        let areVirtual = !targets.selection.all && addresses.allSatisfy(\.isSimulated)
        if !areVirtual { try DeviceLock.prepareFolder() }
        try StandardFile.refuse(
            file, "push does not read standard input: to resume an interrupted update, it needs the file again",
            hint: "save it first, such as cat > update.otaf, and push that file")
        let read = try UpdateFile(parsing: FileReader.contents(of: file))
        let store = try trust.store(console, mayBeEmpty: flags.contains(.unverifiedImage))
        let verifier = Verifier(
            trust: store,
            policy: TrustPolicy(
                allowsDemoKey: flags.contains(.allowDemoKey) || areVirtual, minimumSigners: signatures ?? 1))
        let update = try accepted(read, verifier)
        if case .bundle(let bundle) = update, bundle.manifest.imageFormat == .nordicDFU {
            throw try PackageError.notPushed(
                NordicArchive.package(of: bundle.bundle),
                extraction: "tail -c \(bundle.manifest.imageSize) \(Shell.quoted(file)) >package.zip")
        }
        warn(of: update, console)
        guard !targets.areMany else {
            return try await answer(addresses, update, store, console, usedTime)
        }
        let invocation = invocation(for: update, store)
        do {
            let outcome = try await console.perform(
                .push(update, updateOptions), on: target, client(store, console, usedTime))
            return AnyAnswer(PushAnswer(update, outcome, invocation, isUpload: flags.contains(.uploadOnly)))
        } catch let error as UpdateError {
            throw Failure(error, in: invocation)
        }
    }

    /// Updates several devices.
    ///
    /// - Parameter addresses: the addresses of the devices; empty with `--all`, because this function then finds the devices with a scan.
    private func answer(
        _ addresses: [DeviceAddress], _ update: VerifiedUpdate, _ store: TrustStore, _ console: Console,
        _ usedTime: @escaping @Sendable () -> Duration
    ) async throws -> AnyAnswer {
        guard !addresses.isEmpty || targets.selection.all else {
            try targets.checkReport(is: update)
            return AnyAnswer(ManyPushAnswer(update, [], seconds: 0, invocation, retry: nil, interrupted: nil))
        }
        let push = try ManyPush(
            update: update, options: updateOptions, targets: targets, client: client(store, console, usedTime),
            console: console, invocation: invocation, retry: retry
        ) { device in
            var single = self
            single.targets.devices.device = [device.address.text]
            single.targets.devices.deviceFile = nil
            single.targets.devices.adapters.adapter =
                device.address.isBluetooth ? device.adapter.map { [$0] } ?? [] : []
            single.targets.selection.all = false
            single.targets.failedFrom = nil
            return single.invocation(for: update, store)
        }
        guard targets.selection.all else { return AnyAnswer(try await push.run(addresses.map { .init($0) })) }
        let selection = PushSelection(targets: targets, console: console, invocation: invocation)
        try selection.checkConsent()
        let found = try await selection.find(for: update)
        if targets.selection.list { return AnyAnswer(ScanAnswer(devices: found, isForAll: false)) }
        try await selection.ask(about: found)
        return AnyAnswer(try await push.run(found.map { try .init($0) }))
    }

    /// The user's arguments for a push to the devices that this push does not update; nil if no file has the result of this push.
    private var retry: Invocation? {
        guard let report = options.report, report.hasSuffix(".json") else { return nil }
        var retry = self
        retry.targets = targets.retrying(report)
        return retry.invocation
    }

    /// Returns the user's arguments, which hints repeat. If the device is virtual, the result also contains the options with which
    /// `simulate create` creates a device that accepts `update` (`Invocation.acceptingDevice`).
    private func invocation(for update: VerifiedUpdate, _ store: TrustStore) -> Invocation {
        var invocation = invocation
        invocation.trustedKeys = store.imageKeys.map(\.id)
        if case .images = update { invocation.hasImages = true }
        guard let virtual = invocation.virtualDevice else { return invocation }
        let trusted = trust.trust.flatMap { ["--trust", $0] }
        // The protocol of the user's virtual device, if it can push the update.
        let able = Protocols.all.filter { $0.virtualDevice != nil && $0.definition.accepts(update) }
        let own = try? VirtualDevices().store.updateProtocol(of: virtual)
        let chosen = (able.first { $0.updateProtocol == own } ?? able.first)?.updateProtocol
        let usual = Protocols.all[0].updateProtocol
        var options = chosen.map { $0 == usual ? [] : ["--protocol", $0.rawValue] } ?? []
        guard case .bundle(let bundle) = update else {
            invocation.acceptingDevice = options + ["--product", "demo", "--version", "0.0.0"] + trusted
            return invocation
        }
        let manifest = bundle.manifest
        options += ["--product", manifest.product.text, "--version", manifest.requires?.description ?? "0.0.0"]
        if chosen == usual, let hardware = manifest.hardware?.ranges.first?.lowerBound {
            options += ["--hardware", "\(hardware)"]
        }
        invocation.acceptingDevice = options + trusted
        return invocation
    }

    private func accepted(_ file: UpdateFile, _ verifier: Verifier) throws(Failure) -> VerifiedUpdate {
        do throws(VerificationError) {
            return try flags.contains(.unverifiedImage)
                ? file.acceptedUnverified(by: verifier) : file.verified(by: verifier)
        } catch {
            var invocation = invocation
            if case .images = file { invocation.hasImages = true }
            throw Failure(error, in: invocation)
        }
    }

    private var updateOptions: UpdateOptions {
        UpdateOptions(
            resume: given.lazy.compactMap(\.resume).first ?? .automatic,
            ending: given.lazy.compactMap(\.ending).first ?? .confirm,
            refusesDowngrade: flags.contains(.noDowngrade), acceptsUncheckedTarget: flags.contains(.uncheckedTarget),
            isDryRun: flags.contains(.dryRun), isPlain: flags.contains(.plain))
    }

    /// Returns the options of this push. Without `--plain`, they contain the possible running images of the device, as bases of deltas: the
    /// files of `--base` or of the default paths.
    ///
    /// - Parameter usedTime: returns the time since the start of the command.
    /// - Throws: `timedOut` if the time of `--timeout` has passed.
    private func client(
        _ store: TrustStore, _ console: Console, _ usedTime: @escaping @Sendable () -> Duration
    ) throws(UpdateError) -> Updater.Options {
        var client = Updater.Options()
        (client.keysOfNewDevice, client.usedTime) = (store, usedTime)
        guard !flags.contains(.plain) else { return client }
        let paths = base.isEmpty ? BaseImages.defaultPaths : base.map { FilePath($0) }
        let isLate = { limit.map { usedTime() >= $0 } ?? false }
        let bases = BaseImages(
            in: paths, areChosen: !base.isEmpty, note: { console.warn($0) }, isStopped: isLate)
        if let limit, isLate() {
            throw UpdateError(
                .timedOut, "the search for bases was not finished after \(limit.components.seconds) s")
        }
        console.debug("bases: \(bases.images.count); from \(paths.map(\.string).joined(separator: ", "))")
        client.bases = bases
        return client
    }

    private func warn(of update: VerifiedUpdate, _ console: Console) {
        guard case .images(let images) = update else { return }
        for image in images {
            guard case .consent(let consent) = image.image.authorization else { continue }
            console.warn(
                "\(file) is not signed by a trusted key: \(consent.context). The image is complete, but nothing proves who made "
                    + "it.")
        }
    }
}

/// A flag of `push`. The raw value is the name of the flag without `--`.
enum PushFlag: String, EnumerableFlag {
    case dryRun = "dry-run"
    case resume
    case restart
    case noConfirm = "no-confirm"
    case permanent
    case uploadOnly = "upload-only"
    case plain
    case noDowngrade = "no-downgrade"
    case allowDemoKey = "allow-demo-key"
    case unverifiedImage = "unverified-image"
    case uncheckedTarget = "unchecked-target"

    static func name(for flag: PushFlag) -> NameSpecification { .customLong(flag.rawValue) }

    static func help(for flag: PushFlag) -> ArgumentHelp? {
        switch flag {
        case .dryRun:
            "Check the file and the device, and change nothing."
        case .resume:
            ArgumentHelp(
                "Warn if there is nothing to resume. push always resumes.",
                discussion:
                    "push resumes a partial upload with and without this option. --dry-run does not warn over SMP: there, only the "
                    + "start of an upload shows whether a partial upload exists.")
        case .restart:
            "Discard a partial upload, and start at byte 0."
        case .noConfirm:
            "Leave the new image on trial, for 'otaflash confirm' or 'otaflash discard'."
        case .permanent:
            ArgumentHelp(
                "Install without a trial; required for a device without trials.",
                discussion:
                    "The device cannot roll back. Without this option, push refuses a device without trials (exit 77). For a device "
                    + "with trials, --permanent is accepted only over SMP.")
        case .uploadOnly: "Over SMP: do not mark the image for boot."
        case .plain:
            "Send neither a compressed image nor a delta."
        case .noDowngrade:
            ArgumentHelp(
                "Refuse a lower version than the running one.",
                discussion: "The exit code is 77. Default: install it, with a warning.")
        case .allowDemoKey:
            ArgumentHelp(
                TrustOptions.demoKeyHelp,
                discussion:
                    "\(TrustOptions.demoKeyManual) A push to virtual devices (sim:) alone does not need this option.")
        case .unverifiedImage:
            "Accept an MCUboot image without a trusted signature, at your own risk."
        case .uncheckedTarget:
            ArgumentHelp(
                "Accept a bundle with conditions that cannot be checked over SMP.",
                discussion: "Such a condition is the hardware revision. Default: refuse the bundle (exit 77).")
        }
    }

    /// The flag as the user types it: with `--`.
    var argument: String { "--" + rawValue }

    /// The value for `UpdateOptions.resume`; nil for a flag that does not affect `resume`. `push` refuses two flags that both affect it.
    var resume: UpdateOptions.Resume? {
        switch self {
        case .resume: .expected
        case .restart: .never
        case .dryRun, .noConfirm, .permanent, .uploadOnly, .plain, .noDowngrade, .allowDemoKey,
            .unverifiedImage, .uncheckedTarget:
            nil
        }
    }

    /// The value for `UpdateOptions.ending`, the last step of the update; nil for a flag that does not affect `ending`. `push` refuses two
    /// flags that both affect it.
    var ending: UpdateOptions.Ending? {
        switch self {
        case .noConfirm: .trial
        case .permanent: .permanent
        case .uploadOnly: .uploadOnly
        case .dryRun, .resume, .restart, .plain, .noDowngrade, .allowDemoKey, .unverifiedImage, .uncheckedTarget: nil
        }
    }
}

import ArgumentParser
import OTAClient
import OTAFirmware
import OTAUpdate

/// The command `status`, which shows the status of one or several devices.
struct Status: DeviceCommand {
    static let name = "status"
    static let configuration = CommandConfiguration(
        commandName: name,
        abstract: "Show the running image, the trial state and a partial upload.",
        discussion: """
            Example: otaflash status --device ble:AA:BB:CC:DD:EE:FF
                     otaflash status --device sim:
                     otaflash status --device ble:AA:BB:CC:DD:EE:FF --device-file bench.txt

            A device with the GATT OTA profile also reports a partial upload, which a push of the same file resumes. A device with \
            SMP reports the image in each slot. SMP shows a partial upload only when an upload starts, so status cannot show it.

            For several devices, repeat --device, list them in a file (--device-file), or let status find the Bluetooth devices \
            in range (--all). The result is a table. A device that cannot be read does not stop the others.
            """)

    @OptionGroup var targets: DeviceTargets

    @Flag(
        help: ArgumentHelp(
            "Scan for 10 s, and show all Bluetooth devices that can be updated.",
            discussion: "Not together with --device and --device-file."))
    var all = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    var target: DeviceOptions { targets.one }
    private var areMany: Bool { all || targets.areMany }
    var device: String? { areMany ? nil : target.device }

    var invocation: Invocation {
        guard areMany else { return Invocation(command: Self.name, target) }
        var invocation = Invocation(command: Self.name)
        invocation.options =
            targets.deviceWords + (all ? ["--all"] : []) + targets.sharedWords + targets.pairing.words
        return invocation
    }

    func validate() throws { try targets.check(finder: all ? "--all" : nil) }

    func answer(_ console: Console) async throws -> AnyAnswer {
        guard areMany else {
            let outcome = try await console.perform(.status, on: target)
            return AnyAnswer(StatusAnswer(outcome, target))
        }
        try DeviceLock.prepareFolder()
        var client = Updater.Options()
        client.usedTime = { [begun = ContinuousClock.now] in begun.duration(to: .now) }
        let sessions = ManySessions(
            task: .status, targets: targets, policy: PushQueue.Policy(),
            end: { result in
                if case .success(let result) = result { PushQueue.End(.success(result)) } else { .failed }
            },
            console: console, single: { Invocation(command: Self.name, targets.options(for: $0)) }, options: client)
        let outcomes = try await sessions.run(devices(console)) { result, device in
            let answer = StatusAnswer(result, targets.options(for: device))
            return "\(answer.device.version), \(answer.state)"
        }
        return AnyAnswer(ManyStatusAnswer(outcomes, targets, invocation, interrupted: Interrupts.exitStatus))
    }

    /// Returns the devices of the command line, or the devices in range.
    private func devices(_ console: Console) async throws -> [ManySessions.Device] {
        guard all else { return try targets.addresses().map { .init($0) } }
        var search = DeviceSearch()
        search.reads = false
        search.protocols = targets.session.updateProtocol.forced.map { [$0] } ?? search.protocols
        return try await console.scan(search, over: targets.adapter)
            .assigned(to: targets.adapter).map { try .init($0) }
    }
}

/// The text of a digest that an SMP device lists.
enum ImageDigest {
    /// Returns the name of the algorithm and the first 8 bytes of the digest. The name follows from the length of the digest.
    static func text(_ digest: [UInt8]) -> String {
        "SHA-\(digest.count * 8) \(Hex.encode(Array(digest.prefix(8))))…"
    }
}

/// The result of the command `status` for one device.
struct StatusAnswer: CommandAnswer {
    struct Transfer: Encodable, Sendable {
        /// The number of received bytes.
        let offset: Int
        /// The first 8 bytes of the manifest's SHA-256 digest, as hex digits. A device reports only these 8 bytes.
        let manifestSha256Prefix: String

        init(_ held: DeviceDescription.HeldImage) {
            offset = held.offset
            manifestSha256Prefix = Hex.encode(held.manifestDigestPrefix)
        }
    }
    /// The image in a slot of an SMP device. A flag is nil if the device does not report it.
    struct Slot: Encodable, Sendable {
        let image, slot: Int
        let version: String
        /// The digest from the TLVs of the image, normally SHA-256, as hex digits; nil if the device does not report the digest.
        let sha256: String?
        let digest: [UInt8]?
        let active, pending, confirmed, permanent, bootable: Bool?

        init(_ slot: DeviceDescription.ImageSlot) {
            image = slot.image
            self.slot = slot.slot
            version = slot.version
            digest = slot.digest
            sha256 = slot.digest.map { Hex.encode($0) }
            active = slot.isActive
            pending = slot.isPending
            confirmed = slot.isConfirmed
            permanent = slot.isPermanent
            bootable = slot.isBootable
        }

        private enum CodingKeys: CodingKey {
            case image, slot, version, sha256, active, pending, confirmed, permanent, bootable
        }

        /// The state of the image as text for the user.
        var meaning: String {
            switch (active, pending, confirmed) {
            case (true, _, true): "runs, confirmed"
            case (true, _, false): "runs on trial"
            case (true, _, nil): "runs; not reported whether it is confirmed"
            case (_, true, _):
                permanent == true
                    ? "pending: replaces the running image at the next restart, without a trial"
                    : "pending: starts on trial at the next restart"
            case (false, false, true): "the device rolls back to it at the next restart, unless the trial is confirmed"
            case (false, false, _): bootable == false ? "cannot boot" : "not marked for boot"
            case (nil, _, _), (_, nil, _): "state not reported"
            }
        }
    }
    let device: DeviceSummary
    let updateProtocol: UpdateProtocol
    /// The images in the slots of an SMP device; nil for the GATT OTA profile, which does not report slots.
    let slots: [Slot]?
    let transfer: Transfer?
    /// The command line that resumes the upload.
    let resume: String
    var describesDevice: Bool { true }

    private enum CodingKeys: String, CodingKey {
        case device, slots, transfer
        case updateProtocol = "protocol"
    }

    /// - Parameter target: the options that select the device.
    init(_ outcome: UpdateResult, _ target: DeviceOptions) {
        let description = outcome.report.device
        device = DeviceSummary(outcome)
        updateProtocol = outcome.report.updateProtocol
        slots = description.slots.isEmpty ? nil : description.slots.map { Slot($0) }
        transfer = description.held.map { Transfer($0) }
        // If the device decodes deltas, the command line contains `--base`, so that the push can send a delta.
        var push = Invocation(command: Push.name, file: "BUNDLE", target)
        if description.largestBase ?? 0 > 0 { push.options += ["--base", "RUNNING_BUNDLE"] }
        resume = push.again.line()
    }

    /// The state of the device in a few words.
    var state: String {
        switch device.state {
        case DeviceDescription.State.trial.rawValue: "on trial"
        case _ where transfer != nil: "partial upload"
        case DeviceDescription.State.receiving.rawValue: "receiving"
        case DeviceDescription.State.loader.rawValue: "firmware loader"
        case DeviceDescription.State.unknown.rawValue: "not reported"
        default: "confirmed"
        }
    }

    /// The first 8 bytes of the digest of the running release: of its manifest, or over SMP of its image. Nil if it is not known.
    var digestPrefix: String? {
        device.manifestSha256Prefix
            ?? slots?.first { $0.active == true }?.digest.map { Hex.encode(Array($0.prefix(8))) }
    }

    var lines: [TerminalLine] {
        var rows = device.rows
        rows.insert(("Protocol", updateProtocol.title), at: 1)
        let hasSeveralImages = slots?.contains { $0.image > 0 } == true
        for slot in slots ?? [] {
            let label = hasSeveralImages ? "Image \(slot.image), slot \(slot.slot)" : "Slot \(slot.slot)"
            let digest = slot.digest.map { ", \(ImageDigest.text($0))" } ?? ""
            rows.append((label, "\(slot.version)\(digest); \(slot.meaning)"))
        }
        if let transfer {
            let release = "the release with manifest SHA-256 \(transfer.manifestSha256Prefix)…"
            rows.append(("Partial upload", "\(transfer.offset) bytes of \(release)"))
            // Not "resume": the device may have received all bytes, and its bootloader may have refused them.
            rows.append(("", "a push of this release continues there: \(resume)"))
        }
        return TextTable.pairs(rows)
    }
}

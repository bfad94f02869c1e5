import ArgumentParser
import OTACommands
import OTAFirmware
import OTAFleet
import OTAGateway
import OTASigning
import OTAStore
import SystemPackage

/// The command `rollout create`, which signs a rollout and writes it to the store.
struct RolloutCreate: Command {
    static let name = "rollout create"
    static let configuration = CommandConfiguration(
        commandName: "create", abstract: "Start to update many devices in stages.",
        discussion: """
            Example: otaflash rollout create spring --release 0f1e2d3c4b5a6978 \\
                       --select product=demo,running='<1.4.0' --stages 1%,10%,100% \\
                       --advance 95%,min=20,soak=1h --halt 5%,min=10 --key ops.pem

            create signs the rollout, and writes it to the store. Gateways and a controller then perform it. Each stage admits \
            more devices, until the last stage.

            A device is finished when this rollout starts no other update of it. It is then in one of these states:

              done     the device runs the new image, and the image is confirmed
              failed   not updated, possibly because of the image: for example, it rolled back
              refused  not updated for another reason: for example, it has other hardware, or
                       the link was lost in each of the attempts (--attempts)

            The next stage starts when the conditions of --advance are met. Only the new devices of the current stage are counted. \
            With 95%,min=20,soak=1h, at least 20 of these devices must be finished, at least 95 % of the finished devices must be \
            done, and both must be true for 1 h without interruption.

            The rollout halts when the condition of --halt is met, for all admitted devices together, or for the new devices of \
            the current stage. With 5%,min=10, at least 10 of these devices must be finished, and more than 5 % of the finished \
            devices must have failed. A halted rollout starts no updates. 'otaflash rollout resume' continues it.

            Only enrolled devices count for the stages and the halt. All others are updated in the last stage, and are only \
            reported. The reason: anyone in radio range can add Bluetooth devices with any address and any answer. Without --enrolled, these \
            devices are enrolled: all devices over UDP, serial lines and sim:; the Bluetooth devices that 'otaflash fleet devices' has shown for \(EnrolmentOption.knownDays) \
            days or that have a group ('otaflash device group'); and the devices that --stages names. Devices that are found after \
            this command do not become enrolled.
            """)

    @Argument(help: "The name of the new rollout: letters, digits, _ and -.")
    var name: String

    @Option(
        help: ArgumentHelp(
            "The ID of the release: 16 hex digits, see 'otaflash release list'. Required.", valueName: "id"))
    var release: String

    @Option(
        help: ArgumentHelp(
            "The devices (example: product=lamp,running='<1.4.0',group=hall). Required.",
            discussion:
                "product=NAME, and optionally running='<1.4.0' (the running version, with <, <=, =, >= or >) and group=NAME, "
                + "separated by commas. With several group=NAME, the device must be in one of the groups ('otaflash device "
                + "group').",
            valueName: "selection"))
    var select: String

    @Option(
        help: ArgumentHelp(
            "1 to 16 stages (example: devices=sim-hall,10%,100%).",
            discussion:
                "Each stage is a percentage, in ascending order; group=NAME; or devices=ID+ID with IDs as in 'otaflash device "
                + "hold --help'. All stages contain only devices of --select. A hash of the device's ID decides whether a "
                + "percentage contains the device, so it also applies to devices that a gateway finds later, and the number of "
                + "devices is only approximately this percentage. The devices of the earlier stages stay admitted.",
            valueName: "list"))
    var stages = "100%"

    @Option(
        help: ArgumentHelp(
            "A file with the devices that count: one ID or address on each line. Others are updated last.",
            discussion:
                "These devices and those that --stages names are enrolled, over all links. Recommended for the first "
                + "rollout to Bluetooth devices. Default: all devices over a link that identifies the device, and those that the "
                + "fleet knows already.",
            valueName: "file"),
        completion: .file())
    var enrolled: String?

    @Flag(
        help: ArgumentHelp(
            "Also update devices that run a newer version than the release.",
            discussion: "Default: the rollout does not select them."))
    var allowDowngrade = false

    @Option(
        help: ArgumentHelp(
            "When the next stage starts.",
            discussion:
                "The conditions are the lowest percentage of done devices among the finished devices, the lowest number of "
                + "finished devices (min), and how long both must be true (soak: 0, or a number with s, m, h or d).",
            valueName: "conditions"))
    var advance = "95%,min=1,soak=0"

    @Option(
        help: ArgumentHelp(
            "When the rollout halts.",
            discussion:
                "The conditions are the highest accepted percentage of failed devices among the finished devices, and the lowest "
                + "number of finished devices (min).",
            valueName: "conditions"))
    var halt = "5%,min=10"

    @Option(
        help: ArgumentHelp(
            "The maximum number of attempts for each device, 1 to 1000; default: 3.",
            discussion:
                "Another attempt follows only if the latest one ended without a result, for example because the link was lost. A "
                + "rollback or a refusal is final. A device that may be on trial gets up to as many further attempts, to confirm "
                + "its image.",
            valueName: "number"),
        transform: WholeNumber.in(1...1000))
    var attempts = 3

    @Option(
        help: ArgumentHelp(
            "Start no update after this time, at most 365d.", discussion: "The time is a number with s, m, h or d.",
            valueName: "duration"))
    var expires = "30d"

    @Option(
        help: ArgumentHelp(
            "The public key of a controller that may start stages; 1 to 8. Default: the key of this machine's.",
            discussion:
                "A controller with one of these keys may also halt the rollout. Repeat the option for each key. The default "
                + "belongs to the private key \(FleetFolder.controllerKeyHelp). If the store is on a server, this key must be the "
                + "key of the controller that leads: first start 'otaflash fleet run' without --key on this machine. Give "
                + "--controller if the controller has a --key or runs on another machine.",
            valueName: "file"),
        completion: .file())
    var controller: [String] = []

    @OptionGroup var signing: SigningOptions
    @OptionGroup var trust: TrustOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> RolloutAnswer {
        guard let name = RolloutName(name) else {
            throw Failure.usage(
                "'\(self.name)' is not a name for a rollout",
                hint: "use 1 to 64 letters, digits, _ and -, with a letter or digit at the start")
        }
        guard let id = ReleaseID(release) else {
            throw RolloutPlan.wrong(release, "--release", "the 16 hex digits that 'otaflash release publish' prints")
        }
        let selected = try RolloutPlan.selection(select)
        let stages = try RolloutPlan.stages(stages, advance: advance)
        let halt = try RolloutPlan.halt(halt)
        let enrolled = try self.enrolled.map { try EnrolmentOption.devices(in: $0) }
        guard let lifetime = RolloutPlan.seconds(expires[...]) else {
            throw RolloutPlan.wrong(expires, "--expires", "a number with s, m, h or d, such as 30d")
        }
        guard let now = WallClock.now() else { throw FleetError(.clockNotSet, "the clock of this machine is not set") }
        let (signer, operators, isAlone) = try signing.allKeys(console)
        let named = try namedControllers()
        return try await self.store.withStore { store in
            let controllers = named.isEmpty ? [try await defaultController(in: store)] : named
            let release = try await signedRelease(id, by: signer, isAlone, operators, in: store)
            try await checkPolicy(release.value, in: store, console)
            if !allowDowngrade, let running = selected.running, running.isOnly(above: release.value.version) {
                throw Failure.usage(
                    "--select running=\(running) selects only devices with a newer version than the release, "
                        + "\(release.value.version)",
                    hint: "to install the older version, add --allow-downgrade")
            }
            let selection = allowDowngrade ? selected : selected.notAbove(release.value.version)
            let created = try Self.created(
                after: try await store.rollouts(operators).filter { $0.selection.product == selection.product }, now,
                console)
            let devices = try await StoredDevices(store)
            let list = try EnrolmentOption.list(
                enrolled ?? EnrolmentOption.known(devices, of: selection.product, at: created), named: stages)
            let create = {
                try Rollout(
                    name: name, release: release, selection: selection, stages: stages, halt: halt, attempts: attempts,
                    enrolment: Enrolment(enrolled == nil ? .bluetooth : .all, list),
                    salt: (0..<Rollout.saltLength).map { _ in UInt8.random(in: 0...255) }, controllers: controllers,
                    created: created, expires: created.advanced(by: Int64(lifetime)))
            }
            var check = try await StageCheck(try create(), list, devices, in: store)
            try check.drawPlaces(create)
            let rollout = check.rollout
            let key = try RecordKey(name)
            guard try await store.read(key) == nil else {
                throw FleetError(
                    .badChange, "there is already a rollout \(name)",
                    hint: "choose another name; or show the rollout: otaflash rollout status \(name)")
            }
            if !named.isEmpty { try await warnOfAbsent(named, in: store, console) }
            check.warn(console)
            // The list is written before the rollout, so that a gateway that reads the rollout finds the list.
            if let digest = list.digest { try await store.putObject(list.encoded, digest: digest) }
            try await store.put(operators.sign(rollout, with: signer).encoded(), at: key, expecting: .absent)
            return RolloutAnswer(RolloutSummary(rollout, in: list, progress: nil, counts: .init()))
        }
    }

    /// Returns the creation time of a new rollout: now, or 1 s after the newest of the other rollouts. A device that an earlier rollout has
    /// updated accepts only a rollout with a later creation time, and the clock of another operator can be ahead. Gateways start no update of
    /// a rollout that is too far ahead, so it is ignored after its abort.
    ///
    /// - Throws: `clock-not-set` if a rollout that is not aborted is so far ahead that gateways would refuse the new one.
    private static func created(
        after others: [Rollout], _ now: Timestamp, _ console: Console
    ) throws(FleetError) -> Timestamp {
        let tolerance = Rollout.clockTolerance
        let latest = now.advanced(by: tolerance)
        for other in others where other.state == .aborted && other.created >= latest {
            console.warn(
                "the aborted rollout \(other.name) was created at \(other.created), which is in the future; a device that it "
                    + "has updated would ignore the new rollout")
        }
        let newest = others.filter { $0.state != .aborted || $0.created < latest }.max { $0.created < $1.created }
        guard let newest, newest.created >= now else { return now }
        let created = newest.created.advanced(by: 1)
        guard created <= latest else {
            throw FleetError(
                .clockNotSet,
                "the clock of this machine shows \(now), but the rollout \(newest.name) of the same product was "
                    + "created at \(newest.created): its devices would ignore the new rollout",
                hint: "set the clock of this machine: timedatectl set-ntp true; if it is right, end the other rollout: "
                    + "otaflash rollout abort \(newest.name) --key KEY.pem")
        }
        return created
    }

    /// Returns the release, which an operator must have signed.
    ///
    /// - Parameter isAlone: true if the key of `--key` is the only known key.
    private func signedRelease(
        _ id: ReleaseID, by signer: any Signer, _ isAlone: Bool, _ operators: OperatorKeys, in store: some FleetStore
    ) async throws -> Verified<FleetRelease> {
        do { return try await store.release(id, operators).0 } catch let error as FleetError {
            guard error.code == .untrusted, isAlone else { throw error }
            throw FleetError(
                .untrusted,
                "the key \(signer.publicKey.id) of --key has not signed the release \(id), and this command knows no other "
                    + "operator's key",
                hint: "give the key of the operator who published the release: --key KEY.pem; or, if "
                    + "\(signer.publicKey.id) is the key of another operator, give the public keys of all operators: --operators "
                    + "KEY.pub.pem")
        }
    }

    /// Checks the release and `--allow-downgrade` against the policy of the trusted keys of this machine. Gateways have the same policy if
    /// they have the same trust folder. Without trusted keys, there is no policy.
    private func checkPolicy(_ release: FleetRelease, in store: some FleetStore, _ console: Console) async throws {
        let trusted = try trust.store(console, mayBeEmpty: true)
        if allowDowngrade, let policy = trusted.policy.downgradeRefusal {
            throw Failure(
                "downgrade", .refused, "--allow-downgrade permits lower versions, and \(policy) refuses them",
                hint: "omit --allow-downgrade; or, if downgrades are intended, remove the line 'downgrade = refuse'")
        }
        guard trusted.policy.requiredSignatures != nil, let bundle = try await store.object(release.bundleDigest) else {
            return
        }
        do {
            _ = try Verifier(trust: trusted).verify(SignedBundle(parsing: bundle))
        } catch let error as VerificationError where error.code == .tooFewSignatures {
            throw Failure(error.code.rawValue, .refused, error.context, hint: FleetRelease.signaturesAdvice)
        }
    }

    /// The keys of `--controller`.
    private func namedControllers() throws -> [PublicKey] {
        try controller.map { path in
            let key = try KeyFile.publicKey(at: FilePath(path), option: "--controller").bundleKey
            guard let key, key.algorithm == .ed25519 else {
                throw Failure.usage("\(path) is not an Ed25519 key", hint: "create one: otaflash keygen controller")
            }
            return key
        }
    }

    /// Returns the key of this machine's controller, for a rollout without `--controller`.
    ///
    /// On a server, the gateways are not controllers, and the key can be from a gateway with another store. Then the rollout would wait for
    /// ever. So the leader's record on the server must name this key.
    ///
    /// - Throws: `usage` if this machine's controller was not the last leader on the server; `StoreError`, `KeyError`.
    private func defaultController(in store: some FleetStore) async throws -> PublicKey {
        guard self.store.isOnServer else { return try FleetFolder.controllerKey().publicKey }
        let hint =
            "name the public key of the controller (fleet run --key): --controller KEY.pub.pem; "
            + "or stop the controller that leads, and start one on this machine: otaflash fleet run"
        guard try FleetFolder.hasControllerKey() else {
            throw Failure.usage("the rollout needs a controller, and no controller has run on this machine", hint: hint)
        }
        let key = try FleetFolder.controllerKey().publicKey
        let leader = try await Self.leader(in: store)
        guard leader == key.id else {
            throw Failure.usage(
                "the rollout needs a controller: \(Self.description(of: leader)), but the key of this machine's controller is "
                    + "\(key.id)",
                hint: hint)
        }
        return key
    }

    /// Warns if no controller with one of the keys leads, because the rollout then waits, perhaps for ever.
    ///
    /// A gateway with a file as its store can start later with the key of this machine's controller.
    private func warnOfAbsent(_ named: [PublicKey], in store: some FleetStore, _ console: Console) async throws {
        let leader = try await Self.leader(in: store)
        var running = [leader].compactMap { $0 }
        if !self.store.isOnServer, try FleetFolder.hasControllerKey(), let key = try? FleetFolder.controllerKey() {
            running.append(key.publicKey.id)
        }
        guard !named.contains(where: { running.contains($0.id) }) else { return }
        let keys = named.map { "\($0.id)" }.joined(separator: ", ")
        console.warn(
            "no controller with the key \(keys) of --controller leads: \(Self.description(of: leader)); the rollout waits for its "
                + "controller",
            hint: "start the controller: otaflash fleet run --key KEY.pem")
    }

    /// The key of the controller that leads or was the last leader; nil if there was none.
    private static func leader(in store: some FleetStore) async throws -> KeyID? {
        try await store.read(RecordKey(.progress, "_leader")).flatMap {
            try? LeaderRecord(parsing: $0.bytes).controller
        }
    }

    private static func description(of leader: KeyID?) -> String {
        leader.map { "the last controller that led has the key \($0)" } ?? "no controller has run"
    }
}

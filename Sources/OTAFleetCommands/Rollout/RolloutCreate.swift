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
            Each stage admits more devices. A device has finished when it is updated, or when its update has failed. The next stage \
            starts when the conditions of --advance are met. With 95%,min=20,soak=1h, at least 20 devices of the stage must have \
            finished, at least 95 % of the finished devices must be updated, and both must stay true for 1 h. The rollout halts \
            when too many devices fail (--halt).

            Example: otaflash rollout create spring --release 0f1e2d3c4b5a6978 \\
                       --select product=demo,running='<1.4.0' --stages 1%,10%,100% \\
                       --advance 95%,min=20,soak=1h --halt 5%,min=10 --key ops.pem
            """)

    @Argument(help: "The name of the rollout: letters, digits, _ and -.")
    var name: String

    @Option(help: ArgumentHelp("The ID of the release, as 'release publish' prints it.", valueName: "id"))
    var release: String

    @Option(
        help: ArgumentHelp(
            "The devices: product=NAME, and optionally running='<1.4.0' (or <=, =, >=, >) and group=NAME, separated by commas. The command 'device group' sets the groups of a device.",
            valueName: "selection"))
    var select: String

    @Option(
        help: ArgumentHelp(
            "The stages, separated by commas. Each is a percentage of all selected devices, group=NAME, or devices=ID+ID (example: 1%,10%,100%). A stage also has the devices of the stages before it.",
            valueName: "list"))
    var stages = "100%"

    @Option(
        help: ArgumentHelp(
            "The conditions for the next stage: the percentage of updated devices, the number of devices that must have finished (min), "
                + "and the soak time (a number with s, m, h or d).",
            valueName: "conditions"))
    var advance = "95%,min=1,soak=0"

    @Option(
        help: ArgumentHelp(
            "Halt the rollout if more than this percentage of the finished devices have failed, and at least min devices have finished.",
            valueName: "conditions"))
    var halt = "5%,min=10"

    @Option(
        help: ArgumentHelp("The maximum number of attempts for each device; default: 3.", valueName: "number"),
        transform: WholeNumber.in(1...1000))
    var attempts = 3

    @Option(
        help: ArgumentHelp("The time after which the rollout ends (a number with s, m, h or d).", valueName: "duration")
    )
    var expires = "30d"

    @Option(
        help: ArgumentHelp(
            "The public key of a controller, which may start the stages of this rollout; repeatable. Default: the key of the controller on this machine. With --server, this key must exist: fleet run creates it.",
            valueName: "file"),
        completion: .file())
    var controller: [String] = []

    @OptionGroup var signing: KeyOptions
    @OptionGroup var operators: OperatorOptions
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
        let selection = try RolloutPlan.selection(select)
        let stages = try RolloutPlan.stages(stages, advance: advance)
        let halt = try RolloutPlan.halt(halt)
        guard let lifetime = RolloutPlan.seconds(expires[...]) else {
            throw RolloutPlan.wrong(expires, "--expires", "a number with s, m, h or d, such as 30d")
        }
        guard let now = WallClock.now() else { throw FleetError(.clockNotSet, "the clock of this machine is not set") }
        let signer = try signing.signer(console)
        let operators = try operators.keys(console, signer: signer)
        let controllers = try controllers()
        return try await store.withStore { store in
            let (release, _) = try await store.release(id, operators)
            let rollout = try Rollout(
                name: name, release: release, selection: selection, stages: stages, halt: halt, attempts: attempts,
                controllers: controllers, created: now, expires: now.advanced(by: Int64(lifetime)))
            let key = try RecordKey(name)
            guard try await store.read(key) == nil else {
                throw FleetError(
                    .badChange, "there is already a rollout \(name)",
                    hint: "choose another name; or show the rollout: otaflash rollout status \(name)")
            }
            try await warn(of: rollout, in: store, console)
            try await store.put(operators.sign(rollout, with: signer).encoded(), at: key, expecting: .absent)
            return RolloutAnswer(RolloutSummary(rollout, progress: nil, counts: .init()))
        }
    }

    private func controllers() throws -> [PublicKey] {
        guard !controller.isEmpty else {
            // On a server, the gateways are not controllers. Without a running controller, the rollout would wait for ever.
            if store.isOnServer, try !FleetFolder.hasControllerKey() {
                throw Failure.usage(
                    "the rollout needs a controller, and no controller has run on this machine",
                    hint: "name the key of the controller (fleet run --key): --controller KEY.pub.pem; "
                        + "or first start a controller on this machine: otaflash fleet run")
            }
            return [try FleetFolder.controllerKey().publicKey]
        }
        return try controller.map { path in
            guard let key = try KeyFile.publicKey(at: FilePath(path), option: "--controller").bundleKey else {
                throw Failure.usage("\(path) is not an Ed25519 key", hint: "create one: otaflash keygen controller")
            }
            return key
        }
    }

    /// Warns if a stage admits fewer known devices than it needs to start the next stage.
    private func warn(of rollout: Rollout, in store: some FleetStore, _ console: Console) async throws {
        let records = try await store.devices { _, _ in }
        // Only the devices that a gateway has updated before have a record. The other devices of the gateways count as admitted, because
        // their IDs are not known here.
        let known = records.filter { $0.product == rollout.selection.product }
        let heard = try await store.gateways { _, _ in }.reduce(0) { $0 + $1.heard }
        let unknown = max(0, heard - records.count)
        for (index, stage) in rollout.stages.dropLast().enumerated() {
            var count = known.count { rollout.firstStage(for: $0.device, groups: $0.groups) == index }
            switch stage.audience {
            case .percent: count += unknown
            case .group: break
            case .devices(let devices): count = devices.count
            }
            guard count < stage.minimum, heard > 0 || !records.isEmpty || !isPercent(stage) else { continue }
            console.warn(
                "stage \(index + 1) needs \(stage.minimum) ended devices for the next stage, but it admits only \(count) of the "
                    + "known devices: the rollout can stay in this stage",
                hint: "use a lower min in --advance, or a larger stage")
        }
    }

    private func isPercent(_ stage: Stage) -> Bool { if case .percent = stage.audience { true } else { false } }
}

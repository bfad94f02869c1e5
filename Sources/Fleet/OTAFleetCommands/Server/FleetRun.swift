import ArgumentParser
import DescriptorIO
import OTAClient
import OTACommands
import OTAFleet
import OTAGateway
import OTASigning
import OTAStore
import SystemPackage

/// The command `fleet run`, which runs a controller until a signal stops it.
struct FleetRun: Command {
    static let name = "fleet run"
    static let isLong = true
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Run a controller, which starts the stages of rollouts.",
        discussion: """
            Example: otaflash fleet run --key controller.pem --operators ops.pub.pem \\
                       --server nats://127.0.0.1:4222 --credentials controller.nk

            A fleet with its store on a NATS server needs a controller. If the store is a file, each gateway is also a controller.

            The controller counts the updated and failed devices of the rollouts that name its key ('otaflash rollout create \
            --controller'). It starts their next stages, and halts a rollout if too many devices fail. It runs until Ctrl-C or SIGTERM, \
            and then exits with 0.

            Several controllers can run, on several machines. One of them leads, and the others wait. If it stops, another one leads after 45 s. A rollout \
            continues only if it names the key of the new leader, so give all controllers the same key, or name all keys in the \
            rollout.
            """)

    @Option(
        help: ArgumentHelp(
            "The controller's private key: \(KeyOptions.forms).",
            discussion:
                "Default: the key of this machine's controller, \(FleetFolder.controllerKeyHelp). \(KeyOptions.formsManual)",
            valueName: "key"),
        completion: .file())
    var key: String?

    @OptionGroup var secrets: KeySecretOptions
    @OptionGroup var operators: OperatorOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup var metrics: MetricsOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> FleetRunAnswer {
        let operators = try operators.keys(console)
        let signer = try key.map { try secrets.signer($0, console) } ?? FleetFolder.controllerKey()
        let id = signer.publicKey.id
        let folder = try FleetFolder.path.appending("controller-\(id)")
        // The lock also creates the folder. Two controllers with one memory of serials would overwrite each other's memory.
        let lock = try DeviceLock(folder.appending("lock"), of: "the key of the controller \(id)")
        defer { withExtendedLifetime(lock) {} }
        let serials = MemoryFile(path: folder.appending("serials"))
        let memory = try serials.read()
        let instance = GatewayInstance(UInt32.random(in: 0...UInt32.max))
        let earlierInstances = try InstancesFile(path: folder.appending("instances")).begin(instance)
        let metrics = Guarded(FleetMetrics(isGateway: false, isController: true))
        let notes = ControllerNotes(console, metrics)
        return try await self.metrics.write(metrics, console) {
            try await store.withStore(waitingFor: console) { store, access in
                let controller = Controller(
                    signer: signer, instance: instance, earlierInstances: earlierInstances, operators: operators,
                    memory: memory,
                    store: MeasuredStore(store: store, metrics: metrics, access: access),
                    clock: ContinuousClock(),
                    wall: WallClock.now, save: { try serials.write($0) }, report: { notes.report($0) })
                console.note("the controller \(id) runs; press Ctrl-C to stop it")
                try await Interrupts.during(onFirst: { console.note("stopping") }) { signals in
                    try await access.stopping(signals, report: { _ in console.note("stopping") }) { stops in
                        await withTaskGroup(of: Void.self) { group in
                            group.addTask { await controller.run() }
                            for await _ in stops { break }
                            group.cancelAll()
                        }
                    }
                }
                return FleetRunAnswer(controller: "\(id)")
            }
        }
    }
}

/// The result of `fleet run`, after a signal.
struct FleetRunAnswer: CommandAnswer {
    /// The key ID of the controller.
    let controller: String

    var lines: [TerminalLine] { TextTable.pairs([("controller", controller)]) }
}

/// Shows the messages of a controller, and passes them to the metrics.
private final class ControllerNotes: Sendable {
    private let console: Console
    private let warnings: RepeatedWarnings
    /// The last shown state of each rollout.
    private let states = Guarded<[RolloutName: String]>([:])

    private let metrics: Guarded<FleetMetrics>

    init(_ console: Console, _ metrics: Guarded<FleetMetrics>) {
        (self.console, self.metrics, warnings) = (console, metrics, RepeatedWarnings(console))
    }

    func report(_ note: ControllerNote) {
        metrics.with { $0.note(note) }
        switch note {
        case .leads(let leads):
            console.note(leads ? "this controller leads" : "another controller leads, or the store does not answer")
        case .counted: break
        case .wrote(let progress):
            let text = "\(progress.rollout): \(progress.state.rawValue), stage \(progress.stage + 1)"
            let isNew = states.with { states in
                defer { states[progress.rollout] = text }
                return states[progress.rollout] != text
            }
            if isNew { console.note(text) }
        case .refused(let error): warnings.warn(error)
        case .storeFailed(let error): warnings.warn(error)
        case .notSaved(let text): warnings.warn(saving: text)
        }
    }
}

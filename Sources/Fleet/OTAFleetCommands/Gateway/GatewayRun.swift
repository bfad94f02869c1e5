import ArgumentParser
import DescriptorIO
import OTAClient
import OTACommands
import OTAFirmware
import OTAFleet
import OTAGateway
import OTALinks
import OTASigning
import OTAStore
import SystemPackage

/// The command `gateway run`, which updates the devices near this machine until a signal stops it.
struct GatewayRun: Command {
    static let name = "gateway run"
    static let isLong = true
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Update the devices near this machine that a rollout selects.",
        discussion: """
            Example: otaflash gateway run --name desk --device udp:192.168.1.20 \\
                       --trust release.pub.pem --operators ops.pub.pem

            The gateway knows the devices of --device and --device-file. With --all, it also finds the Bluetooth devices in range: \
            it scans once a minute, and connects once to each new device to read its product and version. A device that changes its \
            Bluetooth address is ignored. The gateway updates a device only if a rollout selects it. An operator must have signed \
            the rollout (--operators), and a trusted key the bundle (--trust).

            The gateway runs until Ctrl-C or SIGTERM. Then it interrupts the updates whose devices have not marked the new image for \
            boot, waits for the others, and exits with 0. A second signal ends it at once. If the server of the store does not accept \
            the gateway's user any more, the gateway stops in the same way, and exits with 77.

            If the store is a file, the gateway is also a controller: it starts the stages of the rollouts that name its \
            key. Its key is \(FleetFolder.controllerKeyHelp); 'otaflash rollout create' on this machine names this key by default. If the store is on a server (--server \
            or $\(ServerOptions.variable)), the gateway is not a controller. Then also start a controller: otaflash fleet run.
            """)

    @Option(
        name: .customLong("name"),
        help: ArgumentHelp(
            "The name of the gateway: letters, digits, _ and -. Required.",
            discussion:
                "Each gateway of the fleet needs a different name; on a server, one of the names of 'otaflash fleet init "
                + "--gateway'.",
            valueName: "name"))
    var gateway: String

    @Option(
        help: ArgumentHelp(
            "A device: ble:AA:BB:CC:DD:EE:FF, udp:HOST[:PORT], serial:/dev/ttyACM0 or sim:NAME; repeatable.",
            discussion: DeviceOptions.severalManual, valueName: "address"),
        completion: Completions.addresses)
    var device: [String] = []

    @Option(
        help: ArgumentHelp(
            DeviceOptions.fileHelp, discussion: DeviceOptions.fileManual, valueName: "file"),
        completion: .file())
    var deviceFile: String?

    @OptionGroup var search: GatewaySearchOptions

    @Option(
        help: ArgumentHelp(
            "The maximum number of updates of this gateway at the same time, 1 to 100; default: 4.",
            valueName: "number"),
        transform: WholeNumber.in(1...100))
    var atOnce = 4

    @OptionGroup var trust: TrustOptions
    @OptionGroup var operators: OperatorOptions
    @OptionGroup var store: StoreOptions
    @OptionGroup var metrics: MetricsOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        guard device.isEmpty, deviceFile == nil, !search.all else { return }
        throw ValidationError("Missing expected argument '--device <address>'; or give --all.")
    }

    func answer(_ console: Console) async throws -> GatewayAnswer {
        guard let name = GatewayName(gateway) else {
            throw Failure.usage(
                "'\(gateway)' is not a name for a gateway", hint: "use 1 to 64 letters, digits, _ and -")
        }
        let addresses = try DeviceList(device, file: deviceFile).addresses(atMost: 1000)
        try warnOfMissing(addresses, console)
        let verifier = Verifier(trust: try trust.store(console))
        let operators = try operators.keys(console)
        let folder = try FleetFolder.path.appending("gateway-\(name)")
        // The lock also creates the folder.
        let lock = try DeviceLock(folder.appending("lock"), of: "the name of the gateway \(name)")
        let memory = MemoryFile(path: folder.appending("serials"))
        let instance = GatewayInstance(UInt32.random(in: 0...UInt32.max))
        let earlierInstances = try InstancesFile(path: folder.appending("instances")).begin(instance)
        defer { withExtendedLifetime(lock) {} }
        let metrics = Guarded(FleetMetrics(isGateway: true, isController: !store.isOnServer))
        return try await self.metrics.write(metrics, console) {
            try await store.withStore(waitingFor: console) { store, access in
                try await run(
                    MeasuredStore(store: store, metrics: metrics, access: access), access,
                    as: Holder(gateway: name, instance: instance), earlierInstances, at: addresses, verifier, operators,
                    memory: memory, controllerMemory: MemoryFile(path: folder.appending("controller-serials")), metrics,
                    console)
            }
        }
    }

    /// Warns of virtual devices that do not exist. A missing device of another transport can be switched off.
    private func warnOfMissing(_ addresses: [DeviceAddress], _ console: Console) throws {
        let missing = try VirtualDevices().missing(from: addresses)
        guard let first = missing.first else { return }
        console.warn(
            "these virtual devices do not exist: \(missing.joined(separator: ", ")); the gateway looks for them again every 60 s",
            hint:
                "correct the name in --device or --device-file (list them: otaflash simulate list), or create the device: "
                + "otaflash simulate create \(first) --product NAME --version VERSION --trust KEY.pub.pem")
    }

    private func run(
        _ store: any FleetStore, _ access: StoreAccess, as holder: Holder, _ earlierInstances: Set<GatewayInstance>,
        at addresses: [DeviceAddress], _ verifier: Verifier,
        _ operators: OperatorKeys, memory: MemoryFile, controllerMemory serials: MemoryFile,
        _ metrics: Guarded<FleetMetrics>, _ console: Console
    ) async throws -> GatewayAnswer {
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        var deviceOptions = Updater.Options()
        deviceOptions.logger = console.logger
        deviceOptions.links = links
        deviceOptions.bluetooth = SharedBlueZClient(logger: console.logger, links: links)
        deviceOptions.adapter = search.adapters.adapter.first
        let notes = GatewayNotes(console, metrics)
        let devices = try ClientDevices(
            addresses, radio: search.radio(ignored: { notes.ignored($0) }), options: deviceOptions,
            clock: ContinuousClock(), failed: { notes.scanFailed($0, in: invocation) })
        let gateway = Gateway(
            .init(
                holder: holder, earlierInstances: earlierInstances, operators: operators, verifier: verifier,
                memory: try memory.read(), slots: atOnce, software: Version.number),
            store: store, devices: MeasuredDevices(devices: devices, metrics: metrics), clock: ContinuousClock(),
            wall: WallClock.now,
            save: { try memory.write($0) }, report: { notes.report($0) })
        // On a server, the controller is a program of its own (fleet run), whose user may write other records than a gateway.
        let controller =
            self.store.isOnServer
            ? nil
            : Controller(
                signer: try FleetFolder.controllerKey(), instance: holder.instance, earlierInstances: earlierInstances,
                operators: operators, memory: try serials.read(), store: store, clock: ContinuousClock(),
                wall: WallClock.now, save: { try serials.write($0) },
                report: { notes.report($0) })
        let others = search.all ? " and all Bluetooth devices in range" : ""
        console.note(
            "the gateway \(holder.gateway) runs with \(Figures.count(addresses.count, "device"))\(others); press Ctrl-C to stop it"
        )
        try await Interrupts.during(onFirst: { console.note("stopping; press Ctrl-C again to stop at once") }) {
            signals in
            try await access.stopping(
                signals, report: { console.note("stopping, because of the store: \($0.context)") }
            ) { stops in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    if let controller { group.addTask { await controller.run() } }
                    try await gateway.run(stops: stops)
                    group.cancelAll()
                }
            }
        }
        return GatewayAnswer(gateway: holder.gateway.text, attempts: metrics.with(\.attempts))
    }
}

/// The result of `gateway run`, after a signal.
struct GatewayAnswer: CommandAnswer {
    let gateway: String
    let attempts: FleetMetrics.Attempts

    var lines: [TerminalLine] {
        TextTable.pairs([
            ("gateway", gateway),
            (
                "attempts",
                "\(attempts.updated) updated, \(attempts.retried) without a result, \(attempts.refused) refused, "
                    + "\(attempts.failed) failed"
            ),
        ])
    }
}

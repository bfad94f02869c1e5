import BlueZ
import OTAClient
import OTALinks
import OTASigning
import OTAUpdate

/// Performs a task on several devices at the same time.
struct ManySessions {
    let task: UpdateTask<VerifiedUpdate>
    let targets: DeviceTargets
    let policy: PushQueue.Policy
    /// Returns the meaning of a result for the order of the other devices.
    let end: @Sendable (Result<UpdateResult, any Error>) -> PushQueue.End
    let console: Console
    /// Returns the user's arguments for the command with one of the devices.
    let single: @Sendable (Device) -> Invocation
    /// The options of the task, such as the bases of deltas. `run(_:summary:)` sets the options that all commands have.
    let options: Updater.Options

    /// A device of the command.
    struct Device: Sendable {
        let address: DeviceAddress
        /// The signal strength in dBm; nil: unknown.
        var rssi: Int?
        /// The Bluetooth adapter of the device; nil: not assigned yet, or the first powered adapter.
        var adapter: String?

        init(_ address: DeviceAddress, rssi: Int? = nil, adapter: String? = nil) {
            self.address = address
            self.rssi = rssi
            self.adapter = adapter
        }

        init(_ found: ScannedDevice) throws {
            self.init(try DeviceAddress(found.address), rssi: found.rssi, adapter: found.adapter)
        }
    }

    /// The outcome of the task for one device.
    struct Outcome {
        let device: Device
        /// The Bluetooth adapter of the device; nil if the command does not use several adapters.
        let adapter: String?
        /// Nil if the session was not started.
        let result: Result<UpdateResult, Failure>?
        /// The duration of the session in seconds; nil if it was not started.
        let seconds: Double?
        let warnings: [String]
    }

    /// The duration of the scan that assigns the given devices to several adapters.
    private static let assignmentTime = Duration.seconds(5)

    /// Performs the task.
    ///
    /// - Parameter summary: returns the outcome of a device in a few words.
    func run(_ given: [Device], summary: (UpdateResult, Device) -> String) async throws -> [Outcome] {
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let client = SharedBlueZClient(logger: console.logger, links: links)
        let locks = given.contains(where: \.address.isBluetooth) ? try await lockAdapters(client) : []
        let devices = try await assigned(given, usual: locks.first?.adapter)
        var shared = options
        shared.updateProtocol = targets.session.updateProtocol.forced
        // Several devices cannot prompt on one terminal at the same time. So without `--passkey`, a pairing that needs a passkey is
        // refused.
        shared.pairing = targets.pairing.passkeyNumber.map { .passkey($0) } ?? .unattended
        shared.requirement = targets.pairing.requirement
        shared.loggedData = console.loggedData
        shared.links = links
        shared.bluetooth = client
        shared.holdsAdapter = !locks.isEmpty
        shared.timeLimit = targets.session.timeout?.duration

        let consoles = devices.map { console.of($0.address.text) }
        let outcomes = await run(devices, shared, consoles, summary)
        withExtendedLifetime(locks) {}
        return zip(zip(devices, consoles), outcomes).map { outcome($0.0, $0.1, $1) }
    }

    /// Locks the adapters of the command line. If the command line names no adapter, locks the first powered adapter. Omits an adapter that
    /// does not exist.
    private func lockAdapters(_ client: SharedBlueZClient) async throws(ClientError) -> [AdapterLock] {
        let names: [String?] = targets.adapter.isEmpty ? [nil] : targets.adapter
        var locks: [AdapterLock] = []
        for name in names {
            if let lock = try await AdapterLock.take(name, of: client) { locks.append(lock) }
        }
        return locks
    }

    /// Returns the devices with their adapters. With several adapters, scans for the devices that have no adapter yet.
    ///
    /// - Parameter usual: the adapter of a command without `--adapter`; nil: unknown.
    /// - Throws: the errors of the scan, such as `link-unavailable` for an adapter that does not exist.
    private func assigned(_ given: [Device], usual: String?) async throws -> [Device] {
        var devices = given
        let open = devices.indices.filter { devices[$0].address.isBluetooth && devices[$0].adapter == nil }
        guard targets.adapter.count > 1, !open.isEmpty else {
            for index in open { devices[index].adapter = targets.adapter.first ?? usual }
            return devices
        }
        var search = DeviceSearch()
        (search.duration, search.reads) = (Self.assignmentTime, false)
        let found = try await console.scan(search, over: targets.adapter)
        var plan = AdapterPlan(targets.adapter)
        for index in open {
            let heard = found.first(where: devices[index].address.matches)
            devices[index].rssi = heard?.rssi
            devices[index].adapter = plan.assign(heard: heard?.heard ?? [:])
        }
        return devices
    }

    private func run(
        _ devices: [Device], _ shared: Updater.Options, _ consoles: [Console],
        _ summary: (UpdateResult, Device) -> String
    ) async -> [PushPool<UpdateResult>.Outcome] {
        let display = ManyProgress(console, devices.map(\.address.text), consoles)
        defer { display.finish() }
        let task = task
        let pool = PushPool<UpdateResult>(end: end) { index, interrupts, gate, report in
            var own = shared
            own.gate = gate
            own.adapter = devices[index].adapter
            own.logger = consoles[index].logger
            own.note = { report(.note($0), .zero) }
            return try await Updater(devices[index].address, own)
                .perform(task, interrupts: interrupts, report: report)
        }
        let entries = devices.map { device in
            PushQueue.Entry(lane: PushQueue.Lane(of: device.address, adapter: device.adapter), rssi: device.rssi)
        }
        return await Interrupts.during(onFirst: console.stopping) { stops in
            await pool.run(
                PushQueue(entries, policy), count: devices.count, interrupts: stops, clock: ContinuousClock(),
                limit: shared.timeLimit.map { max($0 - shared.usedTime(), .zero) }
            ) { event in
                switch event {
                case .started: break
                case .progress(let index, let progress, let time): display.show(progress, at: time, of: index)
                case .postponed(let index, let error):
                    let failure = Failure(error, in: single(devices[index]))
                    display.setWaiting(index)
                    display.note("\(failure.message); trying again later", of: index)
                case .heldBack(let index): display.setWaiting(index)
                case .ended(let index, let result): display.setUpdated(summary(result, devices[index]), of: index)
                case .failed(let index, let error):
                    display.setFailed(Failure(error, in: single(devices[index])), of: index)
                case .limited(let lane, let number):
                    var place = ""
                    if targets.adapter.count > 1, case .bluetooth(let adapter?) = lane { place = " over \(adapter)" }
                    display.note(
                        "a connection failed\(place): from now on, at most \(number) devices are connected\(place) at the same time"
                    )
                case .halted(let index):
                    guard !policy.keepsGoing else { return }
                    display.note(
                        "the device does not show that it runs the new image: no further device is started (--keep-going)",
                        of: index)
                }
            }
        }
    }

    private func outcome(_ device: Device, _ console: Console, _ outcome: PushPool<UpdateResult>.Outcome) -> Outcome {
        var result: Result<UpdateResult, Failure>?
        var seconds: Double?
        if case .ended(let ended, let duration) = outcome {
            seconds = duration.seconds
            result = ended.mapError { Failure($0, in: single(device)) }
        }
        return Outcome(
            device: device,
            adapter: targets.adapter.count > 1 && device.address.isBluetooth ? device.adapter : nil, result: result,
            seconds: seconds, warnings: console.warnings.texts)
    }
}

extension DeviceAddress {
    /// True if the address selects the found device.
    fileprivate func matches(_ found: ScannedDevice) -> Bool {
        switch transport {
        case .bluetooth(.device(let address)): found.address == "ble:\(address)"
        case .bluetooth(.name(let name)): found.name == name
        default: false
        }
    }
}

extension Array where Element == ScannedDevice {
    /// Returns the devices, each with the adapter over which otaflash connects to it, if there are several adapters.
    func assigned(to adapters: [String]) -> [ScannedDevice] {
        guard adapters.count > 1 else { return self }
        var plan = AdapterPlan(adapters)
        return map { device in
            var device = device
            device.adapter = plan.assign(heard: device.heard)
            return device
        }
    }
}

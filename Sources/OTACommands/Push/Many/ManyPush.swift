import BlueZ
import Glibc
import OTABlueZ
import OTAClient
import OTASigning
import OTAUpdate

/// Performs a push to several devices.
struct ManyPush {
    let update: VerifiedUpdate
    let options: UpdateOptions
    let targets: PushTargets
    let trust: TrustStore
    /// The possible running images of the devices, as bases of deltas; nil with `--plain`.
    let bases: BaseImages?
    /// Returns the time since the start of the command. `--timeout` limits the whole command.
    let usedTime: @Sendable () -> Duration
    let console: Console
    /// The user's arguments. `Invocation.options` also contains the options that select the devices.
    let invocation: Invocation
    /// Returns the user's arguments for a push to one of the devices.
    let single: @Sendable (Device) -> Invocation

    /// A device of the push.
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
    }

    /// If a push has at least this number of devices, one device is updated before another device receives the image. This number has no
    /// effect in a dry run or with `--first`.
    private static let severalDevices = 4

    /// The duration of the scan that assigns the given devices to several adapters.
    private static let assignmentTime = Duration.seconds(5)

    func run(_ given: [Device]) async throws -> ManyPushAnswer {
        let begun = ContinuousClock.now
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let client = SharedBlueZClient(logger: console.logger, links: links)
        let locks = given.contains(where: \.address.isBluetooth) ? try await lockAdapters(client) : []
        let devices = try await assigned(given, usual: locks.first?.adapter)
        var shared = Updater.Options()
        shared.updateProtocol = targets.session.updateProtocol.forced
        // Several devices cannot prompt on one terminal at the same time. So without `--passkey`, a pairing that needs a passkey is
        // refused.
        shared.pairing = targets.pairing.passkeyNumber.map { .passkey($0) } ?? .unattended
        shared.requirement = targets.pairing.requirement
        shared.loggedData = console.loggedData
        shared.links = links
        shared.bluetooth = client
        shared.holdsAdapter = !locks.isEmpty
        shared.keysOfNewDevice = trust
        shared.bases = bases
        shared.timeLimit = targets.session.timeout?.duration
        shared.usedTime = usedTime

        let consoles = devices.map { console.of($0.address.text) }
        let outcomes = await push(devices, queue(devices), shared, consoles)
        withExtendedLifetime(locks) {}
        let entries = zip(devices, outcomes).enumerated().map { index, pair in
            var result = entry(pair.0, pair.1)
            result.warnings = consoles[index].warnings.texts
            return result
        }
        let signal = Interrupts.signal
        return ManyPushAnswer(
            update, entries, seconds: begun.duration(to: .now).seconds, invocation,
            interrupted: signal.map { $0 == SIGTERM ? .terminated : .interrupted })
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
    /// - Parameter usual: the adapter of a push without `--adapter`; nil: unknown.
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
        let found = try await Wiring(console: console, invocation: invocation).scan(search, over: targets.adapter)
        var plan = AdapterPlan(targets.adapter)
        for index in open {
            let heard = found.first(where: devices[index].address.matches)
            devices[index].rssi = heard?.rssi
            devices[index].adapter = plan.assign(heard: heard?.heard ?? [:])
        }
        return devices
    }

    private func queue(_ devices: [Device]) -> PushQueue {
        var policy = PushQueue.Policy()
        policy.atOnce = targets.order.atOnce.number
        policy.first = options.isDryRun ? 0 : targets.order.first ?? (devices.count >= Self.severalDevices ? 1 : 0)
        policy.keepsGoing = targets.order.keepGoing
        let entries = devices.map { device in
            PushQueue.Entry(lane: PushQueue.Lane(of: device.address, adapter: device.adapter), rssi: device.rssi)
        }
        return PushQueue(entries, policy)
    }

    private func push(
        _ devices: [Device], _ queue: PushQueue, _ shared: Updater.Options, _ consoles: [Console]
    ) async -> [PushPool<UpdateResult>.Outcome] {
        let display = ManyProgress(console, devices.map(\.address.text), consoles)
        defer { display.finish() }
        let (update, options) = (update, options)
        let pool = PushPool<UpdateResult>(end: { PushQueue.End($0) }) { index, interrupts, admits, report in
            var own = shared
            own.admits = admits
            own.adapter = devices[index].adapter
            own.logger = consoles[index].logger
            own.note = { report(.note($0), .zero) }
            return try await Updater(devices[index].address, own)
                .perform(.push(update, options), interrupts: interrupts, report: report)
        }
        return await Interrupts.during(onFirst: Wiring(console: console, invocation: invocation).stopping) { stops in
            await pool.run(
                queue, count: devices.count, interrupts: stops, clock: ContinuousClock(),
                limit: shared.timeLimit.map { max($0 - usedTime(), .zero) }
            ) { event in
                switch event {
                case .started: break
                case .progress(let index, let progress, let time): display.show(progress, at: time, of: index)
                case .postponed(let index, let error):
                    let failure = Failure(error, in: single(devices[index]))
                    display.setWaiting(index)
                    display.note("\(failure.message); trying again later", of: index)
                case .heldBack(let index): display.setWaiting(index)
                case .ended(let index, let result):
                    let answer = PushAnswer(
                        update, result, single(devices[index]), isUpload: options.ending == .uploadOnly)
                    display.setUpdated(answer.end, of: index)
                case .failed(let index, let error):
                    display.setFailed(Failure(error, in: single(devices[index])), of: index)
                case .limited(let lane, let number):
                    var place = ""
                    if targets.adapter.count > 1, case .bluetooth(let adapter?) = lane { place = " over \(adapter)" }
                    display.note(
                        "a connection failed\(place): from now on, at most \(number) devices are updated\(place) at the same time"
                    )
                case .halted(let index):
                    guard !targets.order.keepGoing else { return }
                    display.note(
                        "the device does not run the new image: no further device is started (--keep-going)", of: index)
                }
            }
        }
    }

    private func entry(_ device: Device, _ outcome: PushPool<UpdateResult>.Outcome) -> ManyPushAnswer.Entry {
        let invocation = single(device)
        var entry = ManyPushAnswer.Entry(device.address.text)
        if targets.adapter.count > 1, device.address.isBluetooth { entry.adapter = device.adapter }
        switch outcome {
        case .notStarted: break
        case .ended(.success(let result), let duration):
            entry.answer = PushAnswer(update, result, invocation, isUpload: options.ending == .uploadOnly)
            entry.seconds = duration.seconds
        case .ended(.failure(let error), let duration):
            var failure = Failure(error, in: invocation)
            if failure.exit == .interrupted, Interrupts.signal == SIGTERM { failure.exit = .terminated }
            (entry.failure, entry.seconds) = (failure, duration.seconds)
        }
        return entry
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

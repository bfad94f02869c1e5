public import OTAClient
internal import OTAEngine
internal import OTAFirmware
public import OTAFleet
public import OTAGateway
public import OTASigning
internal import OTAUpdate

/// The devices of a gateway: devices at given addresses, over any transport of OTAClient, and Bluetooth devices in range.
///
/// After a device at a given address has reported its product and version once, it always counts as heard. A device that this gateway has
/// updated counts as heard from the start. If the device is gone, a push to it ends without a result, and the gateway tries again later. A
/// Bluetooth device in range is reported by ``RadioFinder``.
public struct ClientDevices<C: Clock>: GatewayDevices where C.Duration == Duration {
    private let addresses: [DeviceID: DeviceAddress]
    private let radio: RadioFinder<C>?
    private let options: Updater.Options
    private let clock: C

    /// - Parameters:
    ///   - addresses: the addresses of the devices.
    ///   - radio: the scans for other devices; nil: no scans.
    ///   - clock: measures the pauses between two scans, and the pause of 60 s before a device without an answer is asked again.
    ///   - failed: receives the error of a scan.
    /// - Throws: `AddressError` if an address has no device ID, or if two addresses have the same device ID.
    public init(
        _ addresses: [DeviceAddress], radio: RadioSearch? = nil, options: Updater.Options = Updater.Options(),
        clock: C, failed: @escaping @Sendable (any Error) -> Void = { _ in }
    ) throws {
        var known: [DeviceID: DeviceAddress] = [:]
        for address in addresses {
            let id = try DeviceID(of: address)
            if let other = known.updateValue(address, forKey: id) {
                throw AddressError(
                    "'\(other.text)' and '\(address.text)' have the same device ID \(id)",
                    hint: "give each device once")
            }
        }
        self.addresses = known
        self.radio = radio.map { search in
            RadioFinder(clock: clock) { [known] in
                try await search.run(options).filter { known[$0.device] == nil }
            } status: { device, adapter in
                try await Self.updater(for: device, over: adapter, options).status().report.device
            } failed: {
                failed($0)
            }
        }
        self.options = options
        self.clock = clock
    }

    public func hear(
        record: @escaping @Sendable (DeviceID) async -> RecordedUse, report: @escaping @Sendable (Sighting) -> Void
    ) async {
        let finder = DeviceFinder(addresses, clock: clock, record: record) { [options] in
            try await Updater($0, options).status().report.device
        }
        await withDiscardingTaskGroup { group in
            group.addTask { await finder.run(report) }
            if let radio { group.addTask { await radio.run(report) } }
        }
    }

    public func push(
        _ bundle: VerifiedBundle, to device: DeviceID, onlyConfirms: Bool, refusesDowngrade: Bool,
        interrupts: AsyncStream<Void>, report: @escaping @Sendable (PushStep) -> Void
    ) async -> PushEnd {
        let task = UpdateTask.push(
            VerifiedUpdate.bundle(bundle),
            UpdateOptions(refusesDowngrade: refusesDowngrade, onlyConfirms: onlyConfirms))
        return await PushBridge.run(interrupts, report) { accepted, gate, progress in
            var options = options
            options.gate = gate
            if let address = addresses[device] {
                return await perform(task, with: Updater(address, options), accepted, report: progress)
            }
            guard let radio else { return .retry(PushEnd.reason("no-such-device")) }
            return await radio.connecting(to: device) { [options] adapter in
                guard let updater = try? Self.updater(for: device, over: adapter, options) else {
                    return .retry(PushEnd.reason("no-such-device"))
                }
                return await perform(task, with: updater, accepted, report: progress)
            }
        }
    }

    private func perform(
        _ task: UpdateTask<VerifiedUpdate>, with updater: Updater, _ interrupts: AsyncStream<Void>,
        report: @escaping @Sendable (UpdateProgress) -> Void
    ) async -> PushEnd {
        do {
            let result = try await updater.perform(task, interrupts: interrupts) { progress, _ in report(progress) }
            return PushEnd(result.report.outcome)
        } catch let error as UpdateError {
            return PushEnd(error)
        } catch {
            // The cause is on this computer, for example a lock of another process, or a file. The device is not the cause.
            return .retry(PushEnd.reason("device-in-use"))
        }
    }

    /// The updater for a Bluetooth device in range.
    ///
    /// - Throws: `AddressError` if the ID is not the ID of a Bluetooth device.
    private static func updater(
        for device: DeviceID, over adapter: String?, _ options: Updater.Options
    ) throws -> Updater {
        var options = options
        options.adapter = adapter ?? options.adapter
        return Updater(try DeviceAddress(bluetooth: device), options)
    }
}

/// The scans of a gateway for Bluetooth devices.
public struct RadioSearch: Sendable {
    /// The adapters that scan; empty: the first powered adapter.
    public var adapters: [String] = []
    /// The minimum signal strength of the wanted devices in dBm; nil: any signal strength.
    public var minimumRSSI: Int?
    /// Receives the address of each found device that is not reported, because it changes its address every few minutes.
    public var ignored: @Sendable (ScannedDevice) -> Void = { _ in }

    public init() {}

    /// Scans for 10 s, and returns the found devices with their adapters.
    ///
    /// - Throws: `BlueZError`.
    func run(_ options: Updater.Options) async throws -> [RadioTable.Found] {
        var search = DeviceSearch()
        (search.minimumRSSI, search.reads) = (minimumRSSI, false)
        let scan = DeviceScan(
            search, over: adapters, logger: options.logger, links: options.links, sharing: options.bluetooth)
        var plan = AdapterPlan(adapters)
        var found: [RadioTable.Found] = []
        for device in try await scan.run() {
            guard !device.hasPrivateAddress else {
                ignored(device)
                continue
            }
            guard let id = try? DeviceID(of: DeviceAddress(device.address)) else { continue }
            found.append(RadioTable.Found(id, rssi: device.rssi, adapter: plan.assign(heard: device.heard)))
        }
        return found
    }
}

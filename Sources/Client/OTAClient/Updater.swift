public import BlueZ
import DescriptorIO
public import Logging
import OTAEncoding
import OTAEngine
import OTAFirmware
public import OTALinks
import OTAProfile
public import OTASigning
import OTASimulator
public import OTAUpdate
public import SystemPackage

/// Updates one device over any transport.
///
/// ```swift
/// let update = try UpdateFile(parsing: bytes).verified(by: Verifier(trust: keys))
/// let result = try await Updater(DeviceAddress("ble:AA:BB:CC:DD:EE:FF")).push(update) { progress in
///     for await step in progress { print(step.progress, step.time) }
/// }
/// print(result.report.outcome)
/// ```
///
/// Each method performs one task. The task locks the device, so that no other process of the same user uses the device at the same time. It
/// then connects, retries after lost links, and closes the link.
///
/// To stop a method, cancel the Swift `Task` that called the method. After a stopped push, the device keeps the received bytes. A later
/// push of the same update continues after these bytes, unless `UpdateOptions.resume` is `.never`.
///
/// All tasks throw `UpdateError` for an error of the session, `ClientError` for an error on this computer, and `VirtualDeviceError` for an
/// error of a virtual device.
public struct Updater: Sendable {
    public struct Options: Sendable {
        /// The update protocol to use; nil: a protocol that both the device and the update support.
        public var updateProtocol: UpdateProtocol?
        /// The time limit of a task; nil: no limit. At this limit, the task ends with the error `timedOut`.
        public var timeLimit: Duration?
        /// Returns the part of `timeLimit` that has passed before the task starts.
        package var usedTime: @Sendable () -> Duration = { .zero }
        /// The Bluetooth adapter, such as `hci0`; nil: the first powered adapter.
        public var adapter: String?
        /// The object that responds to pairing requests.
        public var pairing = PairingResponder.unattended
        /// The security that each Bluetooth link must have before its first request. A dry run does not pair, so it has no requirement.
        public var requirement = LinkRequirement.none
        /// The logger for the links and frames. The start and the end of a link are logged at level `debug`. Each frame is logged at level
        /// `trace`, as hex digits, without the bytes of the update.
        public var logger = Logger(label: "ota.client")
        /// The part of the frames with bytes of the update that `logger` gets.
        package var loggedData = LoggedData.lengths
        /// The record of the open Bluetooth links. If this process is killed, another process can close the links in the record. Nil: no
        /// record, so the links of a killed process stay open.
        public var links: (any LinkAccount)?
        /// The trusted keys of a new virtual device; nil: a push creates no virtual device.
        ///
        /// A push to `sim:` creates the virtual device if it does not exist. A dry run never creates it.
        public var keysOfNewDevice: TrustStore?
        /// The possible running images of the device; nil: no image is known. If the device runs one of these images and decodes deltas, a
        /// push can use this image as the base. A push replaces the value of `UpdateOptions.bases` with these images.
        public var bases: BaseImages?
        /// The folder of the virtual devices; nil: the folder of the command `otaflash`.
        public var virtualDeviceFolder: FilePath?
        /// The client of bluetoothd that several updaters share; nil: the updater opens its own client.
        package var bluetooth: SharedBlueZClient?
        /// True if the caller holds the lock of the Bluetooth adapter.
        package var holdsAdapter = false
        /// Permits each stage that the session enters. If it does not permit a stage, the task ends with the error `interrupted`.
        package var gate: StageGate = { _, _ in true }
        /// Receives messages for the user, for example after a virtual device was created.
        public var note: @Sendable (String) -> Void = { _ in }

        public init() {}
    }

    /// A progress event of a task, and the time since the task started.
    public struct Step: Sendable {
        public let progress: UpdateProgress
        public let time: Duration
    }

    private let address: DeviceAddress
    private let options: Options

    public init(_ address: DeviceAddress, _ options: Options = Options()) {
        self.address = address
        self.options = options
    }

    /// Updates the device: sends the update, waits for the restart, and confirms the new image. `UpdateOptions.ending` can exclude some of
    /// these steps.
    ///
    /// With `UpdateOptions.isDryRun`, the push only checks whether the device would accept the update.
    ///
    /// - Parameter progress: reads the progress events. The sequence ends when the task ends.
    public func push(
        _ update: VerifiedUpdate, _ options: UpdateOptions = UpdateOptions(),
        progress: (AsyncStream<Step>) async -> Void = { _ in }
    ) async throws -> UpdateResult {
        let (steps, feed) = AsyncStream.makeStream(of: Step.self)
        async let result = {
            defer { feed.finish() }
            return try await perform(.push(update, options)) { feed.yield(Step(progress: $0, time: $1)) }
        }()
        await progress(steps)
        return try await result
    }

    /// Returns the device's status: the running image, the trial state, and the offset of a partial upload.
    public func status() async throws -> UpdateResult { try await perform(.status) }

    /// Makes the image on trial permanent.
    public func confirm() async throws -> UpdateResult { try await perform(.confirm) }

    /// Discards a partial upload, or ends a trial and rolls back.
    ///
    /// - Parameter erasesImage: over SMP, also erases a complete image that is not marked for boot. Without it, the task fails with
    ///   `slotHoldsImage`.
    public func discard(erasesImage: Bool = false) async throws -> UpdateResult {
        try await perform(.discard(erasesImage: erasesImage))
    }

    /// True if the device is a virtual device in virtual time. A task on this device takes no real time and cannot be interrupted.
    package var isInVirtualTime: Bool {
        if case .simulated(let address) = address.transport { address.pace == .virtual } else { false }
    }

    /// Performs a task.
    ///
    /// - Parameters:
    ///   - interrupts: each element requests the session to stop. The task then throws `interrupted`.
    ///   - report: called in order with each progress event and the time since the session started.
    package func perform(
        _ task: UpdateTask<VerifiedUpdate>, interrupts: AsyncStream<Void> = AsyncStream { _ in },
        report: @escaping @Sendable (UpdateProgress, Duration) -> Void = { _, _ in }
    ) async throws -> UpdateResult {
        guard case .push(let update, var pushOptions) = task else {
            return try await run(task, interrupts: interrupts, report: report)
        }
        pushOptions.bases = options.bases?.images ?? []
        if case .images(let images) = update, images.count > 1, let address = address.ofOneDevice {
            pushOptions.deliveredImages = DeliveredImages.load().images(of: address)
        }
        let result = try await run(.push(update, pushOptions), interrupts: interrupts, report: report)
        if !result.report.unlistedImages.isEmpty { DeliveredImages.record(update, result) }
        return result
    }

    /// Checks whether the device follows the specification of the GATT OTA profile. The results are `UpdateReport.checks`.
    ///
    /// - Parameter bundle: a bundle that the device accepts, to check also the transfer of an image; nil: only the other rules.
    package func check(
        _ bundle: VerifiedBundle?, interrupts: AsyncStream<Void> = AsyncStream { _ in },
        report: @escaping @Sendable (UpdateProgress, Duration) -> Void = { _, _ in }
    ) async throws -> UpdateResult {
        try await run(
            .status, check: { DeviceCheck(bundle: bundle, firstTag: $0) }, interrupts: interrupts, report: report)
    }

    private func run(
        _ task: UpdateTask<VerifiedUpdate>, check: (@Sendable (UInt8) -> DeviceCheck)? = nil,
        interrupts: AsyncStream<Void>, report: @escaping @Sendable (UpdateProgress, Duration) -> Void
    ) async throws -> UpdateResult {
        let run = Run(
            choice: ProtocolChoice(task: task, forced: options.updateProtocol), check: check,
            options: options, text: address.text, interrupts: interrupts, report: report)
        switch address.transport {
        case .simulated(let address): return try await run.perform(on: address)
        case .bluetooth(let address): return try await run.perform(on: address)
        case .udp(let address):
            return try await run.perform("udp:\(address)", lock: "udp-\(address)") {
                UDPTransport(address, channel: $0)
            }
        case .serial(let address):
            return try await run.perform("serial:\(address)", lock: "serial-\(address.path)") {
                SerialTransport(address, channel: $0)
            }
        }
    }
}

/// The result of a task.
public struct UpdateResult: Sendable {
    public let report: UpdateReport
    /// The address that the caller gave, such as `ble:name=Thermostat`.
    public let given: String
    /// The exact address of the device, such as `ble:AA:BB:CC:DD:EE:FF`. With this address, the next task uses the same device.
    public let address: String
    /// The name of the device; nil: the transport has no device names (UDP, serial), or the device has no name.
    public var name: String?
    /// The security of the Bluetooth links; nil: another transport.
    public var security: LinkSecurity?
    /// The highest transfer rate that the simulated link allows if no packet is lost, in bytes per second. Nil if the link is not
    /// simulated, or if no image transfer began.
    public var linkBound: Double?
}

/// Performs one task on one device.
private struct Run {
    let choice: ProtocolChoice
    /// Creates the conformance check that runs in place of the task; nil: the task.
    let check: (@Sendable (UInt8) -> DeviceCheck)?
    var options: Updater.Options
    /// The address that the caller gave.
    let text: String
    let interrupts: AsyncStream<Void>
    let report: @Sendable (UpdateProgress, Duration) -> Void

    private func session(seed: UInt64) -> any UpdateLogic {
        if let check { check(UInt8(truncatingIfNeeded: seed)) } else { choice.session(seed: seed) }
    }

    /// Performs the task over a transport that has one channel.
    func perform(
        _ address: String, lock name: String, _ transport: (Channel) -> some Transport
    ) async throws -> UpdateResult {
        let lock = try DeviceLock(DeviceLock.file(name), of: text)
        defer { withExtendedLifetime(lock) {} }
        let (session, channel) = try choice.sessionOverOneChannel(seed: UInt64.random(in: 0 ... .max))
        return UpdateResult(
            report: try await run(session, over: transport(channel), ContinuousClock()), given: text, address: address)
    }

    func perform(on address: BLEAddress) async throws -> UpdateResult {
        let lock = BluetoothLock(text, holdsAdapter: options.holdsAdapter)
        let stage = Guarded(UpdateStage.searching)
        var tracked = self
        tracked.options.gate = { [gate = options.gate] entered, error in
            stage.with { $0 = entered }
            return gate(entered, error)
        }
        let transport = BlueZTransport(
            address, services: Protocols.services, adapter: options.adapter,
            pairing: choice.task.isDryRun ? .refusing : options.pairing,
            requiring: choice.task.isDryRun ? .none : options.requirement, bonds: BondFiles(),
            sharing: options.bluetooth ?? SharedBlueZClient(logger: options.logger, links: options.links),
            findsNewAddress: options.bluetooth == nil, isUrgent: { stage.with { $0 >= .marked } },
            admits: { device throws(BlueZError) in try await lock.take(device) },
            settles: { await lock.settle($0, isDevice: $1) })
        let session = self.session(seed: UInt64.random(in: 0 ... .max))
        do {
            let report = try await tracked.run(session, over: transport, ContinuousClock())
            var device = await lock.device
            // The first link can be to a program of the device with another address. The result names the device that the user named.
            if case .device(let named) = address, device?.address != named, await !lock.hasMoved { device = nil }
            return UpdateResult(
                report: report, given: text, address: "ble:\(device?.address.description ?? address.description)",
                name: device?.name, security: await transport.security)
        } catch {
            if let failure = await lock.failure { throw failure }
            throw error
        }
    }

    func perform(on address: VirtualDeviceAddress) async throws -> UpdateResult {
        let devices = try VirtualDevices(in: options.virtualDeviceFolder)
        let name = address.name ?? VirtualDevices.demoName
        let keysOfNewDevice = choice.task.isDryRun ? nil : options.keysOfNewDevice
        let lock = try devices.lock(name, mayBeMissing: address.name == nil && keysOfNewDevice != nil)
        defer { withExtendedLifetime(lock) {} }
        if address.name == nil, case .push(let update, _) = choice.task, let keys = keysOfNewDevice,
            let created = try devices.makeDemo(for: update, keys)
        {
            options.note("created the virtual device \(name): \(created)")
        }
        let device = try devices.store.open(name, for: .simulated(address))
        defer { device.suspend() }
        let session = self.session(seed: address.seed)
        let report: UpdateReport
        switch address.pace {
        case .real: report = try await run(session, on: device, address, ContinuousClock())
        case .virtual:
            let time = VirtualTime()
            report = try time.run { try await run(session, on: device, address, time) }
        }
        // The highest possible rate depends on the length of a GATT value. With SMP, a chunk can be longer than one value, so the length is
        // limited to the longest value that the MTU allows.
        let value = min(report.transfer?.chunkSize ?? 0, address.radio.mtu - 3)
        return UpdateResult(
            report: report, given: text, address: "sim:\(name)", name: name,
            linkBound: value > 0 ? address.radio.bytesPerSecondBound(valueLength: value) : nil)
    }

    private func run<C: Clock>(
        _ session: some UpdateLogic, on device: any ObservedDevice, _ address: VirtualDeviceAddress, _ clock: C
    ) async throws(UpdateError) -> UpdateReport where C.Duration == Duration {
        let transport = SimulatedTransport(
            device: device, clock: clock, radio: address.radio, faults: address.faults, seed: address.seed)
        return try await run(session, over: transport, clock)
    }

    private func run<C: Clock>(
        _ session: some UpdateLogic, over transport: some Transport, _ clock: C
    ) async throws(UpdateError) -> UpdateReport where C.Duration == Duration {
        let runner = UpdateRunner(
            clock: clock, limit: options.timeLimit, used: options.usedTime(), encoder: encoder, report: report,
            gate: options.gate)
        guard options.logger.logLevel <= .debug else {
            return try await runner.run(session, over: transport, interrupts: interrupts)
        }
        return try await runner.run(
            LoggedSession(session, options.logger, options.loggedData), over: transport, interrupts: interrupts)
    }

    /// The function that encodes the image of a push; nil: the task has no image that can be encoded.
    private var encoder: (@Sendable (EncodingRequest) async -> Result<EncodedImage, EncodingFailure>)? {
        guard case .push(.bundle(let bundle), _) = choice.task else { return nil }
        let (image, bases) = (bundle.image, options.bases)
        return { request in
            do throws(EncodingFailure) {
                var base: [UInt8] = []
                if let described = request.base { base = try bases?.bytes(of: described) ?? [] }
                return .success(try ImageEncoder.encode(image, from: request.offset, base: base))
            } catch {
                return .failure(error)
            }
        }
    }
}

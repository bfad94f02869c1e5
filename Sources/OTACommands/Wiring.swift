import BlueZ
import Glibc
import OTABlueZ
import OTAEngine
import OTAFirmware
import OTAProfile
import OTASMP
import OTASerial
import OTASigning
import OTASimulator
import OTATransport
import OTAUDP
import OTAUpdate
import SystemPackage

/// Connects tasks, protocols and transports. Only this type and its extensions select a transport for a protocol.
struct Wiring {
    let console: Console
    let invocation: Invocation
    /// The time limit of a session; nil: no limit.
    private(set) var limit: Duration?

    init(console: Console, invocation: Invocation) {
        self.console = console
        self.invocation = invocation
    }

    /// Performs a task and keeps the device locked until the task ends.
    ///
    /// - Parameter trust: the trusted keys, for a virtual device that a push to `sim:` creates; nil: no device is created.
    func perform(
        _ task: UpdateTask<VerifiedUpdate>, on target: DeviceOptions, trust: TrustStore? = nil
    ) async throws -> DeviceOutcome {
        var wiring = self
        wiring.limit = target.limit
        return try await wiring.perform(
            ProtocolChoice(task: task, forced: target.updateProtocol.forced), on: target, trust: trust)
    }

    private func perform(
        _ choice: ProtocolChoice, on target: DeviceOptions, trust: TrustStore?
    ) async throws -> DeviceOutcome {
        switch try target.address().transport {
        case .simulated(let address): return try await perform(choice, onVirtual: address, trust)
        case .bluetooth(let address): return try await perform(choice, onBluetooth: address, target.radio)
        case .udp(let address):
            let lock = try DeviceLock(DeviceLock.file("udp-\(address)"), in: invocation)
            let transport = UDPTransport(address, channel: SMPChannel.value)
            return try await perform(choice, over: transport, "udp:\(address)", lock)
        case .serial(let address):
            let lock = try DeviceLock(DeviceLock.file("serial-\(address.path)"), in: invocation)
            let transport = SerialTransport(address, channel: SMPChannel.value)
            return try await perform(choice, over: transport, "serial:\(address)", lock)
        }
    }

    /// Performs a task with SMP over a transport with one channel.
    private func perform(
        _ choice: ProtocolChoice, over transport: some Transport, _ address: String, _ lock: DeviceLock
    ) async throws -> DeviceOutcome {
        defer { withExtendedLifetime(lock) {} }
        let session = UpdateSession(try choice.conversation(.smp), seed: UInt64.random(in: 0 ... .max))
        return DeviceOutcome(report: try await run(session, over: transport), address: address)
    }

    private func perform(
        _ choice: ProtocolChoice, onVirtual address: VirtualDeviceAddress, _ trust: TrustStore?
    ) async throws -> DeviceOutcome {
        let folder = try VirtualDevices()
        let name = address.name ?? VirtualDevices.demoName
        let lock = try folder.lock(name, in: invocation, mayBeMissing: address.name == nil && trust != nil)
        defer { withExtendedLifetime(lock) {} }
        if address.name == nil, case .push(let update, _) = choice.task, let trust,
            let made = try folder.makeDemo(for: update, trust)
        {
            console.note("created the virtual device \(name): \(made)")
        }
        let device = try open(name, folder.store, for: choice.task, address)
        defer { device.suspend() }
        let session = choice.session(seed: address.seed)
        let report =
            switch address.pace {
            case .real:
                try await interruptibly { stops in
                    try await run(session, on: device, address, ContinuousClock(), stops)
                }
            case .virtual: try runVirtually(session, on: device, address)
            }
        // Over SMP a chunk can be longer than one value. The bound depends on the length of a value.
        let value = min(report.transfer?.chunkSize ?? 0, address.radio.mtu - 3)
        return DeviceOutcome(
            report: report, address: "sim:\(name)", name: name,
            linkBound: value > 0 ? address.radio.bytesPerSecondBound(valueLength: value) : nil)
    }

    private func open(
        _ name: String, _ store: VirtualDeviceStore, for task: UpdateTask<VerifiedUpdate>,
        _ address: VirtualDeviceAddress
    ) throws -> any ObservedDevice {
        switch try store.updateProtocol(of: name) {
        case .smp: return try store.openSMP(name)
        case .ota:
            return try store.open(name) { configuration in
                configuration.battery = address.battery ?? configuration.battery
                // The virtual bootloader checks digests, not image formats. So a device for raw images can boot every format.
                if configuration.imageFormat == .raw, case .push(.bundle(let bundle), _) = task {
                    configuration.imageFormat = bundle.manifest.imageFormat
                }
            }
        }
    }

    private func run<C: Clock>(
        _ session: UpdateSession, on device: any ObservedDevice, _ address: VirtualDeviceAddress, _ clock: C,
        _ stops: AsyncStream<Void>
    ) async throws(UpdateError) -> UpdateReport where C.Duration == Duration {
        let transport = SimulatedTransport(
            device: device, clock: clock, radio: address.radio, faults: address.faults, seed: address.seed)
        let reporter = ProgressReporter(console)
        defer { reporter.finish() }
        let runner = UpdateRunner(clock: clock, limit: limit) { reporter.report($0, at: $1) }
        return try await runner.run(session, over: transport, interrupts: stops)
    }

    /// Runs a session in virtual time. Code in virtual time cannot wait for a signal, so a signal ends the process.
    private func runVirtually(
        _ session: UpdateSession, on device: any ObservedDevice, _ address: VirtualDeviceAddress
    ) throws -> UpdateReport {
        let time = VirtualTime()
        return try time.run { try await run(session, on: device, address, time, AsyncStream { $0.finish() }) }
    }

    /// Runs a session. The first signal asks it to stop; a second signal ends the process at once.
    ///
    /// - Parameter body: gets one element for the first signal.
    /// - Throws: the error of `body`; `Failure`: `interrupted` after a signal.
    func interruptibly(
        _ body: @Sendable (AsyncStream<Void>) async throws -> UpdateReport
    ) async throws -> UpdateReport {
        do {
            return try await Interrupts.during {
                console.note("stopping; press Ctrl-C again to stop at once")
            } body: {
                try await body($0)
            }
        } catch let error as UpdateError where error.code == .interrupted {
            var failure = Failure(error, in: invocation)
            if Interrupts.signal == SIGTERM { failure.exit = .terminated }
            throw failure
        }
    }

    /// Runs a session in real time. A signal asks it to stop.
    func run(_ session: UpdateSession, over transport: some Transport) async throws -> UpdateReport {
        try await interruptibly { stops in
            let reporter = ProgressReporter(console)
            defer { reporter.finish() }
            let runner = UpdateRunner(clock: ContinuousClock(), limit: limit) { reporter.report($0, at: $1) }
            return try await runner.run(session, over: transport, interrupts: stops)
        }
    }

    /// Performs a task over Bluetooth LE.
    func perform(
        _ choice: ProtocolChoice, onBluetooth address: BLEAddress, _ radio: RadioOptions
    ) async throws -> DeviceOutcome {
        let lock = BluetoothLock(invocation)
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let transport = BlueZTransport(
            address, services: [ProfileChannel.service, SMPChannel.value.service], adapter: radio.adapter,
            pairing: radio.pairing(console), logger: console.logger, links: links,
            admits: { device throws(BlueZError) in try await lock.take(device) })
        let session = choice.session(seed: UInt64.random(in: 0 ... .max))
        do {
            let report = try await run(session, over: transport)
            let device = await lock.device
            return DeviceOutcome(
                report: report, address: "ble:\(device?.address.description ?? address.description)",
                name: device?.name)
        } catch {
            if let failure = await lock.failure { throw failure }
            throw error
        }
    }

    /// Runs `body`. The first signal cancels it; a second signal ends the process at once.
    ///
    /// - Throws: the error of `body`; `Failure`: `interrupted` after a signal.
    func untilSignalled(_ body: @escaping @Sendable () async throws -> Void) async throws {
        do {
            try await Interrupts.during {
                console.note("stopping; press Ctrl-C again to stop at once")
            } body: { stops in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await body() }
                    group.addTask { for await _ in stops { return } }
                    try await group.next()
                    group.cancelAll()
                }
            }
        } catch {
            guard Interrupts.signal == nil else { throw Self.stopped }
            throw error
        }
        guard Interrupts.signal == nil else { throw Self.stopped }
    }

    private static var stopped: Failure { .interrupted(by: Interrupts.signal ?? SIGINT) }
}

/// The result of a task for a device.
struct DeviceOutcome: Sendable {
    var report: UpdateReport
    /// The address for the next command, such as `ble:AA:BB:CC:DD:EE:FF`.
    var address: String
    /// The name of the device; nil: it has none.
    var name: String?
    /// The highest possible rate of the link without loss, in bytes per second; nil: unknown.
    var linkBound: Double?
}

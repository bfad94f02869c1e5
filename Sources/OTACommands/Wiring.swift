import Glibc
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

/// Which protocol is spoken over which transport: the one place that names them.
struct Wiring {
    let console: Console
    let invocation: Invocation
    /// How long a session may take; nil: no limit.
    private(set) var limit: Duration?

    init(console: Console, invocation: Invocation) {
        self.console = console
        self.invocation = invocation
    }

    /// Carries out a task, and holds the device's lock for as long.
    ///
    /// - Parameter trust: the keys in force, for a virtual device that is made on the way.
    func perform(
        _ task: DeviceTask, on target: DeviceOptions, trust: TrustStore? = nil
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

    /// Over a transport with one channel, which carries SMP.
    private func perform(
        _ choice: ProtocolChoice, over transport: some Transport, _ address: String, _ lock: DeviceLock
    ) async throws -> DeviceOutcome {
        defer { withExtendedLifetime(lock) {} }
        let session = try choice.session(.smp, seed: UInt64.random(in: 0 ... .max))
        return DeviceOutcome(report: try await run(session, over: transport), updateProtocol: .smp, address: address)
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
            console.note("the virtual device \(name) was made: \(made)")
        }
        let device = try open(name, folder.store, for: choice.task, address)
        defer { device.suspend() }
        let (session, chosen) = choosing(choice, seed: address.seed)
        let report =
            switch address.pace {
            case .real:
                try await interruptibly { stops in
                    try await run(session, on: device, address, ContinuousClock(), stops)
                }
            case .virtual: try runVirtually(session, on: device, address)
            }
        // A chunk of SMP goes in several values.
        let value = min(report.transfer?.chunkSize ?? 0, address.radio.mtu - 3)
        return DeviceOutcome(
            report: report, updateProtocol: chosen.value, address: "sim:\(name)", name: name,
            linkBound: value > 0 ? address.radio.bytesPerSecondBound(valueLength: value) : nil)
    }

    private func open(
        _ name: String, _ store: VirtualDeviceStore, for task: DeviceTask, _ address: VirtualDeviceAddress
    ) throws -> any ObservedDevice {
        switch try store.updateProtocol(of: name) {
        case .smp: return try store.openSMP(name)
        case .ota:
            return try store.open(name) { configuration in
                configuration.battery = address.battery ?? configuration.battery
                // A virtual bootloader looks at digests, not at formats: made for raw images it boots them all.
                if configuration.imageFormat == .raw, case .push(.bundle(let bundle), _) = task {
                    configuration.imageFormat = bundle.bundle.envelope.manifest.imageFormat
                }
            }
        }
    }

    private func run<C: Clock>(
        _ session: some UpdateSession, on device: any ObservedDevice, _ address: VirtualDeviceAddress, _ clock: C,
        _ stops: AsyncStream<Void>
    ) async throws(UpdateError) -> UpdateReport where C.Duration == Duration {
        let transport = SimulatedTransport(
            device: device, clock: clock, radio: address.radio, faults: address.faults, seed: address.seed)
        let reporter = ProgressReporter(console)
        defer { reporter.finish() }
        let runner = UpdateRunner(clock: clock, limit: limit) { reporter.report($0, at: $1) }
        return try await runner.run(session, over: transport, interrupts: stops)
    }

    /// Nothing that runs on a virtual clock may wait for the world, so a signal ends the process.
    private func runVirtually(
        _ session: some UpdateSession, on device: any ObservedDevice, _ address: VirtualDeviceAddress
    ) throws -> UpdateReport {
        let time = VirtualTime()
        return try time.run { try await run(session, on: device, address, time, AsyncStream { $0.finish() }) }
    }

    func interruptibly(
        _ body: @Sendable (AsyncStream<Void>) async throws -> UpdateReport
    ) async throws -> UpdateReport {
        do {
            return try await Interrupts.during {
                console.note("stopping; once more to stop at once")
            } body: {
                try await body($0)
            }
        } catch let error as UpdateError where error.code == .interrupted {
            var failure = Failure(error, in: invocation)
            if Interrupts.signal == SIGTERM { failure.exit = .terminated }
            throw failure
        }
    }

    /// Carries a session through in real time, as a signal lets it.
    func run(_ session: any UpdateSession, over transport: some Transport) async throws -> UpdateReport {
        try await interruptibly { stops in
            let reporter = ProgressReporter(console)
            defer { reporter.finish() }
            let runner = UpdateRunner(clock: ContinuousClock(), limit: limit) { reporter.report($0, at: $1) }
            return try await runner.run(session, over: transport, interrupts: stops)
        }
    }

    /// The session that fits what the device offers, and where it is told which one that was.
    func choosing(_ choice: ProtocolChoice, seed: UInt64) -> (ChoosingSession, ChosenProtocol) {
        let chosen = ChosenProtocol()
        let session = ChoosingSession(until: ProfileSession(.status, seed: seed)) { link throws(UpdateError) in
            chosen.value = try choice.choice(of: link)
            return try choice.session(chosen.value, seed: seed)
        }
        return (session, chosen)
    }
}

import Glibc
import OTAEngine
import OTAFirmware
import OTAProfile
import OTASigning
import OTASimulator
import OTATransport
import OTAUpdate
import SystemPackage

/// Which protocol is spoken over which transport: the one place that names them.
struct Wiring {
    let console: Console
    let situation: Situation

    /// Carries out a task, and holds the device's lock for as long.
    ///
    /// - Parameter trust: the keys in force, for a virtual device that is made on the way.
    func perform(
        _ task: DeviceTask, on target: DeviceOptions, trust: TrustStore? = nil
    ) async throws -> DeviceOutcome {
        switch try target.address().bearer {
        case .simulated(let address): try await perform(task, onVirtual: address, trust)
        case .bluetooth(let address): try await perform(task, onBluetooth: address, target.radio)
        }
    }

    private func perform(
        _ task: DeviceTask, onVirtual address: VirtualDeviceAddress, _ trust: TrustStore?
    ) async throws -> DeviceOutcome {
        let folder = try VirtualDevices()
        let name = address.name ?? VirtualDevices.demoName
        let lock = try folder.lock(name, in: situation, isToBeMade: address.name == nil && trust != nil)
        defer { withExtendedLifetime(lock) {} }
        if address.name == nil, case .push(let bundle, _) = task, let trust, try folder.makeDemo(for: bundle, trust) {
            let product = bundle.bundle.envelope.manifest.product
            console.note("the virtual device \(name) was made: \(product), version 0.0.0")
        }
        let device = try folder.store.open(name) { configuration in
            configuration.battery = address.battery ?? configuration.battery
            // A virtual bootloader looks at digests, not at formats: made for raw images it boots them all.
            if configuration.imageFormat == .raw, case .push(let bundle, _) = task {
                configuration.imageFormat = bundle.bundle.envelope.manifest.imageFormat
            }
        }
        defer { device.suspend() }
        let session = ProfileSession(Self.profileTask(task), seed: address.seed)
        let report =
            switch address.pace {
            case .real:
                try await interruptibly { stops in
                    try await run(session, on: device, address, ContinuousClock(), stops)
                }
            case .virtual: try runVirtually(session, on: device, address)
            }
        let chunk = report.transfer?.chunkSize ?? 0
        return DeviceOutcome(
            report: report, address: "sim:\(name)", name: name,
            linkBound: chunk > 0 ? address.radio.bytesPerSecondBound(valueLength: chunk) : nil)
    }

    private func run<C: Clock>(
        _ session: some UpdateSession, on device: VirtualDevice, _ address: VirtualDeviceAddress, _ clock: C,
        _ stops: AsyncStream<Void>
    ) async throws(UpdateError) -> UpdateReport where C.Duration == Duration {
        let transport = SimulatedTransport(
            device: device, clock: clock, radio: address.radio, faults: address.faults, seed: address.seed)
        let reporter = ProgressReporter(console)
        defer { reporter.finish() }
        let runner = UpdateRunner(clock: clock) { reporter.report($0, at: $1) }
        return try await runner.run(session, over: transport, interrupts: stops)
    }

    /// Nothing that runs on a virtual clock may wait for the world, so a signal ends the process.
    private func runVirtually(
        _ session: ProfileSession, on device: VirtualDevice, _ address: VirtualDeviceAddress
    ) throws -> UpdateReport {
        let time = VirtualTime()
        return try time.run { try await run(session, on: device, address, time, AsyncStream { $0.finish() }) }
    }

    func interruptibly(
        _ body: @Sendable (AsyncStream<Void>) async throws -> UpdateReport
    ) async throws -> UpdateReport {
        let interrupts = Interrupts()
        do {
            return try await interrupts.during {
                console.note("stopping; once more to stop at once")
            } body: {
                try await body($0)
            }
        } catch let error as UpdateError where error.code == .interrupted {
            var failure = Failure(error, in: situation)
            if interrupts.signal == SIGTERM { failure.exit = .terminated }
            throw failure
        }
    }

    static func profileTask(_ task: DeviceTask) -> ProfileTask {
        switch task {
        case .push(let bundle, let request):
            let ending: PushOptions.Ending =
                switch request.ending {
                case .confirm: .confirm
                case .trial: .trial
                case .permanent: .permanent
                }
            return .push(
                bundle,
                PushOptions(resume: request.resume, ending: ending, refusesDowngrade: request.refusesDowngrade))
        case .status: return .status
        case .confirm: return .confirm
        case .discard: return .discard
        case .identify(let seconds): return .identify(seconds: seconds)
        }
    }
}

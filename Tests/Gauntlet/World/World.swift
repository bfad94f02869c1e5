import OTAEngine
import OTAFirmware
package import OTAProfile
import OTASigning
package import OTASimulator
import OTATransport
package import OTAUpdate

/// A virtual device, the modelled radio before it, and the virtual time in which both live.
package struct World: Sendable {
    package let time: VirtualTime
    package let device: VirtualDevice
    package let transport: SimulatedTransport<VirtualTime>
    package let release: Release
    package let factoryImage: [UInt8]

    package init(
        _ release: Release, radio: RadioModel = RadioModel(), faults: FaultPlan = FaultPlan(), seed: UInt64 = 1,
        age: Duration = .zero, adjust: (inout VirtualDeviceConfiguration) -> Void = { _ in }
    ) throws {
        time = VirtualTime()
        self.release = release
        var configuration = VirtualDeviceConfiguration(
            product: release.bundle.bundle.envelope.manifest.product, trustedKeys: [release.key])
        // As large as the image needs: a world is made anew for every cut.
        configuration.layout = FlashLayout(slotSize: release.image.count.roundedUp(to: 4096))
        adjust(&configuration)
        device = try VirtualDevice(configuration, version: try Self.factoryVersion.get(), securityCounter: 1)
        _ = device.poll(at: age)
        transport = SimulatedTransport(device: device, clock: time, radio: radio, faults: faults, seed: seed)
        factoryImage = device.factoryImage
    }

    /// The same device, with nothing more to go wrong on the way to it.
    func healed(seed: UInt64) throws -> World {
        World(self, SimulatedTransport(device: device, clock: time, seed: seed))
    }

    private init(_ world: World, _ transport: SimulatedTransport<VirtualTime>) {
        (time, device, release, factoryImage) = (world.time, world.device, world.release, world.factoryImage)
        self.transport = transport
    }

    /// Lets time pass.
    func wait(_ duration: Duration) throws {
        let time = time
        try time.run { try await time.sleep(for: duration) }
        _ = device.poll(at: device.now + duration)
    }

    private static let factoryVersion = Result {
        struct NoVersion: Error {}
        guard let version = SemanticVersion("1.0.0") else { throw NoVersion() }
        return version
    }

    /// What became of one run of a client.
    package struct Run: Sendable {
        package var outcome: Result<UpdateReport, UpdateError>
        package var tally: Tally
        /// In virtual time.
        package var duration: Duration

        package init(_ outcome: Result<UpdateReport, UpdateError>, _ tally: Tally, in duration: Duration) {
            self.outcome = outcome
            self.tally = tally
            self.duration = duration
        }

        package var report: UpdateReport? { try? outcome.get() }
        package var error: UpdateError.Code? {
            if case .failure(let error) = outcome { return error.code }
            return nil
        }
    }

    /// Runs clients one after the other in one stretch of virtual time.
    ///
    /// - Parameters:
    ///   - way: what lies between them and the transport.
    ///   - observe: sees each step of each client: its number, the event, the time, and what the session made of it.
    package func run(
        _ clients: [Client], seed: UInt64 = 1, through way: WorldFaults? = nil,
        observe: @escaping @Sendable (Int, UpdateEvent, Duration, [UpdateAction]) -> Void = { _, _, _, _ in }
    ) throws -> [Run] {
        let (time, faulty) = (time, FaultyTransport(transport, to: device, time, way))
        return try time.run {
            var runs: [Run] = []
            for (index, client) in clients.enumerated() {
                let tally = Tally()
                let session = MortalSession(
                    ProfileSession(client.task, seed: seed &+ UInt64(index)), tally, diesAt: client.death,
                    clockJump: client.clockJump, sentOffset: { $0.sentOffset },
                    observe: { observe(index, $0, $1, $2) })
                let runner = UpdateRunner(clock: time) { progress, _ in tally.reports.append(progress) }
                let interrupts = AsyncStream<Void> { $0.finish() }
                let start = time.now
                var outcome: Result<UpdateReport, UpdateError>
                do throws(UpdateError) {
                    outcome = .success(try await runner.run(session, over: faulty, interrupts: interrupts))
                } catch {
                    outcome = .failure(error)
                }
                runs.append(Run(outcome, tally, in: start.duration(to: time.now)))
                if client.pause > .zero { try await time.sleep(for: client.pause) }
            }
            return runs
        }
    }

    /// Runs clients one after the other, each with its task.
    ///
    /// - Parameters:
    ///   - deaths: for each client the number of the event before which it dies; nil: it lives.
    ///   - pauses: for each client how long nothing happens after it.
    package func run(
        _ tasks: [ProfileTask], deaths: [Int?] = [], pauses: [Duration] = [], seed: UInt64 = 1
    ) throws -> [Run] {
        let clients = tasks.enumerated().map { index, task in
            Client(
                task, death: index < deaths.count ? deaths[index] : nil,
                pause: index < pauses.count ? pauses[index] : .zero)
        }
        return try run(clients, seed: seed)
    }

    package func push(_ options: PushOptions = PushOptions()) throws -> Run {
        try run([.push(release.bundle, options)])[0]
    }

    /// The new image runs for good, byte for byte.
    package var runsNewImage: Bool { runsForGood(release.image) }
    /// The image that it came with runs, and nothing is about to change that.
    package var runsOldImage: Bool { runsForGood(factoryImage) }

    package func runsForGood(_ image: [UInt8]) -> Bool {
        guard let running = device.running, let state = device.bootState else { return false }
        return device.runningImage == image && state.permanent == running.slot && state.trial == BootState.Trial.none
    }
}

extension VirtualDevice {
    /// As it is before the first boot, when nothing runs yet.
    fileprivate var factoryImage: [UInt8] {
        Array("factory firmware of \(configuration.product.text), version 1.0.0\n".utf8)
    }
}

extension Int {
    package func roundedUp(to unit: Int) -> Int { (self + unit - 1) / unit * unit }
}

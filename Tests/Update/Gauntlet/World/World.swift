package import OTAEngine
package import OTASimulator
package import OTAUpdate

/// A virtual device, its modelled radio, and their virtual time.
package struct World<Kind: Wire>: Sendable {
    package let time: VirtualTime
    package let device: Kind.Device
    package let transport: SimulatedTransport<VirtualTime>
    package let release: Kind.Image
    package let factoryImage: [UInt8]

    /// - Parameter age: the device's uptime at the start.
    package init(
        _ device: Kind.Device, _ release: Kind.Image, radio: RadioModel, faults: FaultPlan, seed: UInt64,
        age: Duration = .zero
    ) {
        time = VirtualTime()
        self.device = device
        self.release = release
        _ = device.poll(at: age)
        factoryImage = device.runningImage ?? []
        transport = SimulatedTransport(device: device, clock: time, radio: radio, faults: faults, seed: seed)
    }

    /// Returns a world with the same device and no faults on the link. If the device runs a program that only its own address shows, the
    /// user gives this address.
    package func healed(seed: UInt64) -> World {
        let isHidden = device.place(at: device.now) == .unknownAddress
        return World(
            self, SimulatedTransport(device: device, clock: time, seed: seed, hasOtherAddress: isHidden))
    }

    private init(_ world: World, _ transport: SimulatedTransport<VirtualTime>) {
        (time, device, release, factoryImage) = (world.time, world.device, world.release, world.factoryImage)
        self.transport = transport
    }

    /// Advances the virtual time.
    func wait(_ duration: Duration) throws {
        let time = time
        try time.run { try await time.sleep(for: duration) }
        _ = device.poll(at: device.now + duration)
    }

    /// Runs clients in turn, without a break in virtual time.
    ///
    /// - Parameters:
    ///   - way: the faults between the clients and the transport.
    ///   - transport: replaces the modelled radio.
    ///   - observe: called after each step with the client's number, the event, the time, and the session's actions.
    package func run(
        _ clients: [Client<Kind.Task>], seed: UInt64 = 1, through way: WorldFaults? = nil,
        over transport: (any Transport)? = nil,
        observe: @escaping @Sendable (Int, UpdateEvent, Duration, [UpdateAction]) -> Void = { _, _, _, _ in }
    ) throws -> [Run] {
        let (time, device) = (time, device)
        let faulty = FaultyTransport(
            transport ?? self.transport, time, way.map { FaultAgent($0, device, Kind.messages) })
        return try time.run {
            var runs: [Run] = []
            for (index, client) in clients.enumerated() {
                if let cut = client.powerCut { _ = device.schedule([cut], worn: []) }
                let tally = Tally()
                let session = MortalSession(
                    try Kind.session(client.task, seed: seed &+ UInt64(index)), tally, diesAt: client.death,
                    clockJump: client.clockJump, observe: { observe(index, $0, $1, $2) })
                let runner = UpdateRunner(clock: time, encoder: client.encoder) { progress, _ in
                    tally.reports.append(progress)
                }
                let interrupts = AsyncStream<Void> { $0.finish() }
                let start = time.now
                var outcome: Result<UpdateReport, UpdateError>
                do throws(UpdateError) {
                    outcome = .success(try await runner.run(session, over: faulty, interrupts: interrupts))
                } catch {
                    outcome = .failure(error)
                }
                runs.append(Run(outcome: outcome, tally: tally, duration: start.duration(to: time.now)))
                if client.pause > .zero { try await time.sleep(for: client.pause) }
            }
            return runs
        }
    }

    /// Runs a client for each task, in turn.
    ///
    /// - Parameters:
    ///   - deaths: for each client, the number of the event before which it is killed, or nil.
    ///   - pauses: for each client, the time between its end and the next client.
    ///   - encoders: for each client, its encoder, or nil.
    ///   - transport: replaces the modelled radio.
    package func run(
        _ tasks: [Kind.Task], deaths: [Int?] = [], pauses: [Duration] = [], seed: UInt64 = 1,
        encoders: [UpdateRunner<VirtualTime>.Encoder?] = [], over transport: (any Transport)? = nil
    ) throws -> [Run] {
        let clients = tasks.enumerated().map { index, task in
            Client(
                task, death: index < deaths.count ? deaths[index] : nil,
                pause: index < pauses.count ? pauses[index] : .zero,
                encoder: index < encoders.count ? encoders[index] : nil)
        }
        return try run(clients, seed: seed, over: transport)
    }

    /// Returns true if the new image runs permanently and matches byte for byte.
    package var runsNewImage: Bool { runsForGood(release.image) }
    /// True if the factory image runs and no other image is pending.
    package var runsOldImage: Bool { runsForGood(factoryImage) }

    package func runsForGood(_ image: [UInt8]) -> Bool {
        guard let running = device.running, let state = device.bootState else { return false }
        return device.runningImage == image && state.permanent == running.slot && state.trial == BootState.Trial.none
    }
}

extension Int {
    package func roundedUp(to unit: Int) -> Int { (self + unit - 1) / unit * unit }
}

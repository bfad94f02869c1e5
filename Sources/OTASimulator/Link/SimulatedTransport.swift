public import OTATransport
public import OTAUpdate

/// The way to a virtual device over a modelled radio. It sleeps on the clock it is given, so it runs in real and in virtual
/// time alike.
public final class SimulatedTransport<C: Clock>: Transport, Sendable where C.Duration == Duration {
    public let device: any SimulatedDevice
    let world: SimulatedWorld
    private let clock: C
    private let start: C.Instant
    /// What the device's clock showed then.
    private let origin: Duration

    /// While a link is up the device is for the transport to call; what it can tell may be read at any time.
    public init(
        device: some SimulatedDevice, clock: C, radio: RadioModel = RadioModel(), faults: FaultPlan = FaultPlan(),
        seed: UInt64 = 1
    ) {
        self.device = device
        self.clock = clock
        start = clock.now
        origin = device.now
        world = SimulatedWorld(device: device, radio: radio, plan: faults, seed: seed)
    }

    public var statistics: SimulationStatistics { world.lock.locked { SimulationStatistics(world) } }

    /// - Throws: `timedOut` when the device was out of reach for as long as the radio model gives an attempt.
    public func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result {
        let link = try await connect()
        return await withTaskGroup(of: Void.self) { group in
            group.addTask { await link.run() }
            let result = await body(link)
            link.close()
            group.cancelAll()
            return result
        }
    }

    private func connect() async throws(LinkError) -> SimulatedLink<C> {
        let giveUp = now + world.radio.connectTimeout
        while now < giveUp {
            guard let reachable = world.lock.locked({ world.reachable(at: now) }), reachable < giveUp else { break }
            let earliest = reachable + world.radio.connectTime
            guard await sleep(until: earliest) else { throw LinkError(.lost, "the attempt was cancelled") }
            let (events, out) = AsyncStream.makeStream(of: LinkEvent.self)
            let instant = now
            let connection = world.lock.locked {
                world.reachable(at: instant) == instant ? world.connect(out, at: instant) : nil
            }
            if let connection { return SimulatedLink(self, connection, events) }
        }
        guard await sleep(until: giveUp) else { throw LinkError(.lost, "the attempt was cancelled") }
        throw LinkError(.timedOut, "the device did not answer within \(world.radio.connectTimeout)")
    }

    /// Time since the device was switched on.
    var now: Duration { origin + start.duration(to: clock.now) }

    /// False: cancelled.
    func sleep(until time: Duration) async -> Bool {
        do {
            try await clock.sleep(until: start.advanced(by: time - origin), tolerance: nil)
            return true
        } catch {
            return false
        }
    }
}

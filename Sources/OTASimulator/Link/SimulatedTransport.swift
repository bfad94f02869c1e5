import DescriptorIO
public import OTATransport
public import OTAUpdate

/// The transport to a virtual device over a simulated radio. It uses the given clock, so it runs in real time or in simulated time.
public final class SimulatedTransport<C: Clock>: Transport, Sendable where C.Duration == Duration {
    public let device: any SimulatedDevice
    let world: SimulatedWorld
    private let clock: C
    private let start: C.Instant
    /// The device's time at `start`.
    private let origin: Duration

    /// Creates a transport to `device`. While a link is open, only the transport may call the device. Its inspection properties may be read
    /// at any time.
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

    /// Opens a link and runs `body` with it.
    ///
    /// - Throws: `timedOut` if the device is out of reach for the radio model's `connectTimeout`.
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
            guard await sleep(until: earliest) else { throw LinkError(.lost, "the connection attempt was cancelled") }
            let (events, out) = AsyncStream.makeStream(of: LinkEvent.self)
            let instant = now
            let connection = world.lock.locked {
                world.reachable(at: instant) == instant ? world.connect(out, at: instant) : nil
            }
            if let connection { return SimulatedLink(self, connection, events) }
        }
        guard await sleep(until: giveUp) else { throw LinkError(.lost, "the connection attempt was cancelled") }
        throw LinkError(.timedOut, "the device did not answer within \(world.radio.connectTimeout)")
    }

    /// The time since the device was switched on.
    var now: Duration { origin + start.duration(to: clock.now) }

    /// Sleeps until `time`. Returns false if the task was cancelled.
    func sleep(until time: Duration) async -> Bool {
        do {
            try await clock.sleep(until: start.advanced(by: time - origin), tolerance: nil)
            return true
        } catch {
            return false
        }
    }
}

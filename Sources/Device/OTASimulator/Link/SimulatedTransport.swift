import DescriptorIO
public import OTAEngine
public import OTAUpdate

/// The transport to a virtual device over a simulated radio. The transport runs in real time or in simulated time, depending on its clock.
public final class SimulatedTransport<C: Clock>: Transport, Sendable where C.Duration == Duration {
    public let device: any SimulatedDevice
    let world: SimulatedWorld
    private let clock: C
    private let start: C.Instant
    /// The device's time when the clock's time is `start`.
    private let origin: Duration
    private let hasOtherAddress: Bool

    /// Creates a transport to `device`.
    ///
    /// - Parameter hasOtherAddress: the transport has the other address of the device in place of its own address.
    ///
    /// While a link is open, only the transport may call functions of the device. Other code may read the device's properties for tests,
    /// such as `running`, at any time.
    public init(
        device: some SimulatedDevice, clock: C, radio: RadioModel = RadioModel(), faults: FaultPlan = FaultPlan(),
        seed: UInt64 = 1, hasOtherAddress: Bool = false
    ) {
        self.device = device
        self.hasOtherAddress = hasOtherAddress
        self.clock = clock
        start = clock.now
        origin = device.now
        world = SimulatedWorld(device: device, radio: radio, plan: faults, seed: seed)
    }

    public var statistics: SimulationStatistics { world.lock.locked { SimulationStatistics(world) } }

    /// Opens a link and runs the link until it ends.
    ///
    /// - Returns: the reason for the end of the link.
    /// - Throws: `timedOut` if the connection does not succeed within the radio model's `connectTimeout`. `lost` if the task is cancelled
    ///   before the link is open.
    public func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
        try await runLink(to: .device, opened: opened, receive: receive)
    }

    /// Opens a link to the running program of the device, if the transport finds it.
    public func runLink(
        to target: LinkTarget, opened: (any Link) -> Void, receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError {
        try await connect(to: target, receive).run(opened: opened)
    }

    /// The time between two looks for a program that does not run yet.
    private static var lookInterval: Duration { .milliseconds(100) }

    private func connect(
        to target: LinkTarget, _ receive: @escaping LinkSink
    ) async throws(LinkError) -> SimulatedLink<C> {
        let giveUp = now + world.radio.connectTimeout
        while now < giveUp {
            guard let reachable = world.lock.locked({ world.reachable(at: now) }), reachable < giveUp else { break }
            let earliest = reachable + world.radio.connectTime
            guard await sleep(until: earliest) else { throw LinkError(.lost, "the connection attempt was cancelled") }
            let instant = now
            // Also without the target `program`, a named program is found: an earlier, interrupted update has named it.
            guard let place = place(at: instant) else {
                let next = min(instant + Self.lookInterval, giveUp)
                guard await sleep(until: next) else { throw LinkError(.lost, "the connection attempt was cancelled") }
                continue
            }
            let connection = world.lock.locked {
                world.reachable(at: instant) == instant ? world.connect(receive, at: instant) : nil
            }
            if let connection { return SimulatedLink(self, connection, place) }
        }
        guard await sleep(until: giveUp) else { throw LinkError(.lost, "the connection attempt was cancelled") }
        throw LinkError(
            target == .program ? .noSuchDevice : .timedOut,
            "the device did not answer within \(world.radio.connectTimeout)")
    }

    /// Returns how this transport finds the program that runs at `instant`; nil: it does not find the program.
    private func place(at instant: Duration) -> ProgramPlace? {
        switch world.lock.locked({ world.device.place(at: instant) }) {
        case .ownAddress: hasOtherAddress ? nil : .ownAddress
        case .otherAddress: hasOtherAddress ? .ownAddress : .otherAddress
        case .unknownAddress: hasOtherAddress ? .ownAddress : nil
        case nil: nil
        }
    }

    /// The device's time, measured from the device's first power-up.
    var now: Duration { origin + start.duration(to: clock.now) }

    /// Sleeps until the device's time is `time`. Returns false if the task was cancelled.
    func sleep(until time: Duration) async -> Bool {
        do {
            try await clock.sleep(until: start.advanced(by: time - origin), tolerance: nil)
            return true
        } catch {
            return false
        }
    }
}

/// A link over the simulated radio. The transport's clock determines the time of each event of the link.
final class SimulatedLink<C: Clock>: Link, @unchecked Sendable where C.Duration == Duration {
    let properties: LinkProperties
    private let transport: SimulatedTransport<C>
    private let connection: RadioConnection

    private var world: SimulatedWorld { transport.world }

    init(_ transport: SimulatedTransport<C>, _ connection: RadioConnection, _ place: ProgramPlace) {
        self.transport = transport
        self.connection = connection
        properties = LinkProperties(
            channels: transport.world.channels, maximumValueLength: transport.world.radio.maximumValueLength,
            programName: transport.device.programName, hasOtherAddress: place == .otherAddress,
            operations: VirtualGATT.operations.filter { transport.world.channels.contains($0.key) })
    }

    func submit(_ command: LinkCommand) { world.lock.locked { connection.submit(command) } }

    func close() { world.lock.locked { connection.close(at: transport.now) } }

    /// Runs the link until the link ends or the task is cancelled. Returns the reason for the end.
    func run(opened: (any Link) -> Void) async -> LinkError {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.runRadio() }
            // The task of the radio may already run before the call of `opened`. The host loses no event, because the radio delivers no
            // event before the host's first command.
            opened(self)
            var ends = connection.ends.makeAsyncIterator()
            let end = await ends.next(isolation: #isolation) ?? LinkError(.lost, "the task was cancelled")
            close()
            group.cancelAll()
            return end
        }
    }

    /// Runs the radio until the link ends or the task is cancelled. While no data is queued, this function sleeps and does not simulate
    /// empty connection events.
    private func runRadio() async {
        await withDiscardingTaskGroup { timers in
            var wakes = connection.wakes.makeAsyncIterator()
            var earliest: Duration?
            running: while true {
                switch world.lock.locked({ connection.next(at: transport.now) }) {
                case .over: break running
                case .at(let time):
                    guard await transport.sleep(until: time) else { break running }
                    world.lock.locked { connection.advance(to: time) }
                case .idle(let timer):
                    // `earliest` is the time of the timer task that wakes next. When this time has passed, the task has ended, so the next
                    // timer needs a new task.
                    if let due = earliest, due <= transport.now { earliest = nil }
                    if let timer, earliest.map({ timer < $0 }) ?? true {
                        earliest = timer
                        timers.addTask { await self.wake(at: timer) }
                    }
                    guard await wakes.next() != nil else { break running }
                    world.lock.locked { connection.advance(to: transport.now) }
                }
            }
            timers.cancelAll()
        }
    }

    private func wake(at time: Duration) async {
        guard await transport.sleep(until: time) else { return }
        world.lock.locked { connection.wakeIfIdle() }
    }
}

import OTAUpdate

/// What all links to one virtual device share: the device, the faults to come, what was counted. All of it is used under
/// its lock.
final class SimulatedWorld: @unchecked Sendable {
    let lock = Lock()
    let device: any SimulatedDevice
    let channels: Set<Channel>
    let radio: RadioModel
    let plan: FaultPlan
    var faults: FaultCounter
    var random: SplitMix64
    var transcript = Transcript()
    var window = WindowObserver()
    var links = 0
    /// Operations of the device's flash before this world began.
    let firstFlashOperation: Int
    /// Nobody is there from now on.
    var isGone = false
    /// The device cannot be reached before this.
    var outOfReachUntil = Duration.zero

    private let connections = RadioConnections()

    init(device: any SimulatedDevice, radio: RadioModel, plan: FaultPlan, seed: UInt64) {
        self.device = device
        self.channels = device.channels
        self.radio = radio
        self.plan = plan
        self.faults = FaultCounter(plan)
        self.random = SplitMix64(seed: seed)
        device.schedule(plan.flashFaults)
        self.firstFlashOperation = device.schedule(plan.powerCuts, worn: plan.wornPrograms)
        device.observe(
            onNotification: { [connections] in connections.all[$0]?.offer($2, on: $1) ?? true },
            onRestart: { [connections] in connections.all.values.forEach { $0.wakeIfIdle() } })
    }

    deinit { connections.all = [:] }

    /// When the device can be connected: `now`, or later, or never (nil).
    func reachable(at now: Duration) -> Duration? {
        isGone ? nil : device.reachable(at: now).map { max($0, outOfReachUntil, now) }
    }

    /// Nil: the device takes no connection.
    func connect(_ out: AsyncStream<LinkEvent>.Continuation, at now: Duration) -> RadioConnection? {
        links += 1
        let handle = UInt16(truncatingIfNeeded: links)
        let connection = RadioConnection(world: self, handle: handle, out: out, at: now)
        connections.all[handle] = connection
        guard device.connect(handle, valueLength: radio.maximumValueLength, at: now) else {
            connections.all[handle] = nil
            return nil
        }
        window.restart()
        return connection
    }

    func forget(_ handle: UInt16) { connections.all[handle] = nil }
}

/// The links that are up. The device, which may outlive the world, holds them in its stead: a weak reference to the world would
/// slow each use of it down.
private final class RadioConnections: @unchecked Sendable {
    var all: [UInt16: RadioConnection] = [:]
}

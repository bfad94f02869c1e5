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

    private var connections: [UInt16: RadioConnection] = [:]

    init(device: any SimulatedDevice, radio: RadioModel, plan: FaultPlan, seed: UInt64) {
        self.device = device
        self.channels = device.channels
        self.radio = radio
        self.plan = plan
        self.faults = FaultCounter(plan)
        self.random = SplitMix64(seed: seed)
        self.firstFlashOperation = device.schedule(plan.powerCuts, worn: plan.wornPrograms)
        device.observe(
            onNotification: { [weak self] in self?.connections[$0]?.offer($2, on: $1) ?? true },
            onRestart: { [weak self] in self?.connections.values.forEach { $0.wakeIfIdle() } })
    }

    /// When the device can be connected: `now`, or later, or never (nil).
    func reachable(at now: Duration) -> Duration? {
        isGone ? nil : device.reachable(at: now).map { max($0, outOfReachUntil, now) }
    }

    /// Nil: the device takes no connection.
    func connect(_ out: AsyncStream<LinkEvent>.Continuation, at now: Duration) -> RadioConnection? {
        links += 1
        let handle = UInt16(truncatingIfNeeded: links)
        let connection = RadioConnection(world: self, handle: handle, out: out, at: now)
        connections[handle] = connection
        guard device.connect(handle, valueLength: radio.maximumValueLength, at: now) else {
            connections[handle] = nil
            return nil
        }
        window.restart()
        return connection
    }

    func forget(_ handle: UInt16) { connections[handle] = nil }
}

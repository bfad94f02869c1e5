import DescriptorIO
import OTAEngine
import OTAUpdate

/// The shared state of all links to one virtual device: the device, the scheduled faults and the counters. The caller must hold `lock` for
/// every access.
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
    /// The number of flash operations that the device performed before the creation of this object. `SimulationStatistics.flashOperations`
    /// does not include these operations.
    let firstFlashOperation: Int
    /// Whether the device is out of reach permanently, because of `FaultPlan.goneAt`.
    var isGone = false
    /// The time until which the device is out of reach, because of `FaultPlan.outOfReach`.
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

    /// Returns the earliest time for a connection, not before `now`. Returns nil if the device is out of reach permanently, or never
    /// accepts a connection again.
    func reachable(at now: Duration) -> Duration? {
        isGone ? nil : device.reachable(at: now).map { max($0, outOfReachUntil, now) }
    }

    /// Connects to the device. Returns nil if the device refuses the connection.
    ///
    /// - Parameter receive: receives the events of the connection. The closure runs while `lock` is held.
    func connect(_ receive: @escaping LinkSink, at now: Duration) -> RadioConnection? {
        links += 1
        let handle = UInt16(truncatingIfNeeded: links)
        let connection = RadioConnection(world: self, handle: handle, receive: receive, at: now)
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

/// The open connections. The closures that the device stores reference this object and not the ``SimulatedWorld``.
///
/// A strong reference to the world would be a retain cycle, because the world references the device. An unowned reference could become
/// invalid, because the device may exist longer than the world. A weak reference would be slower.
private final class RadioConnections: @unchecked Sendable {
    var all: [UInt16: RadioConnection] = [:]
}

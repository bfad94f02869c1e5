package import OTAUpdate

/// Decides in which order the pushes to several devices start, and when each push starts.
///
/// A queue is a value without a clock. ``PushPool`` passes the events of the pushes to the queue, and starts the pushes that the queue
/// returns.
///
/// A push uses a slot of its device's lane until it begins to mark the image for boot, or ends. While the device restarts and is confirmed,
/// its push needs no slot. So the next push of the lane can start in the meantime.
///
/// A push asks for permission before its first change on the device (``enter(_:_:)``). So several pushes can connect at the same time to
/// find a device that answers. At first, only ``Policy/first`` devices get the permission. The others get it after these devices are updated.
package struct PushQueue: Sendable {
    /// A resource that several devices share, such as a Bluetooth adapter.
    package enum Lane: Hashable, Sendable {
        /// The devices of one Bluetooth adapter. They share the time on air.
        case bluetooth(adapter: String?)
        case udp
        /// A serial port has one device.
        case serial(String)
        case simulated

        /// The number of devices that use the lane at the same time by default.
        ///
        /// Usual Bluetooth adapters support 5 or 7 links. One of them is for a device that is being confirmed. So the limit is 4.
        var usualLimit: Int {
            switch self {
            case .bluetooth, .simulated: 4
            case .udp: 32
            case .serial: 1
            }
        }
    }

    package struct Entry: Sendable {
        var lane: Lane
        /// The signal strength in dBm; nil: unknown.
        var rssi: Int?

        package init(lane: Lane, rssi: Int? = nil) {
            self.lane = lane
            self.rssi = rssi
        }
    }

    package struct Policy: Sendable {
        /// The number of devices that use a lane at the same time; nil: the usual limit of the lane.
        package var atOnce: Int?
        /// The number of devices that must be updated before another device receives the image.
        package var first = 0
        /// True if further pushes start even after a device has rolled back or did not return.
        package var keepsGoing = false

        package init() {}
    }

    /// The result of the push to one device.
    package enum End: Sendable, Equatable {
        /// The device runs the image. `trial` is the time limit of its trials; nil: unknown, or the device does not support a trial.
        case updated(trial: Duration?)
        /// The device could not be reached.
        case unreachable
        /// The device rolled back, did not return, or has no application any more. The image may be the reason.
        case lostTheImage
        /// The device has the image, and it is not known whether it runs. This is no proof that the update works, so it does not update one of
        /// the first devices (``Policy/first``).
        case returned
        case failed
    }

    /// The next step for a device whose push has ended.
    package enum Next: Sendable, Equatable {
        /// The result of the push is the result of the device.
        case finished
        /// The device could not be reached. The queue puts the device after all waiting devices.
        case again
        /// The device has received nothing, because its push was not permitted. This push starts again before the pushes to devices that
        /// have not answered yet. After a halt, it does not start again.
        case heldBack
    }

    /// The maximum number of pushes to a device that cannot be reached.
    package static let attempts = 3
    /// The assumed time in which one device restarts and is confirmed.
    private static let confirmation = Duration.seconds(10)
    /// The assumed time limit of a trial before the first device has reported its limit.
    private static let usualTrial = Duration.seconds(60)

    private enum State {
        case waiting
        /// The push runs, and has not changed anything on the device.
        case connecting
        /// The queue did not permit the push to change the device (``enter(_:_:)``). The push ends without a change.
        case refused
        /// The push may change the device.
        case transferring
        case onTrial, ended

        /// True if the push uses a slot of the device's lane.
        var holdsSlot: Bool { self == .connecting || self == .refused || self == .transferring }
        /// True if the device may have received the image, and is not updated yet.
        var isAdmitted: Bool { self == .transferring || self == .onTrial }
    }

    private struct Device {
        let lane: Lane
        var state = State.waiting
        var attempts = 0
        /// True if the device has answered in its current push.
        var isReached = false
        /// True if the device answered in an earlier push, which was not permitted to change the device. The next push probably
        /// reaches the device soon.
        var hasAnswered = false
        /// True if a failed connection of this device has already lowered the limit of its lane.
        var hasLowered = false
    }

    private let policy: Policy
    private var devices: [Device]
    private let laneCount: Int
    /// The devices that wait, in the order in which their pushes start.
    private var order: [Int]
    /// The lowered limits of the lanes.
    private var limits: [Lane: Int] = [:]
    private var updated = 0
    /// True if a connection has failed. More pushes may then connect before the first devices are updated (`isWanted(_:)`).
    private var isSearchWide = false
    /// The shortest time limit of a trial that an updated device has reported; nil: no device has reported a limit.
    private var shortestTrial: Duration?
    /// True after a halt: the queue starts no further push, even if devices wait.
    package private(set) var isHalted = false

    /// Creates a queue. The push to the device with the strongest signal starts first. Devices without a signal strength follow in the
    /// given order.
    package init(_ entries: [Entry], _ policy: Policy) {
        self.policy = policy
        devices = entries.map { Device(lane: $0.lane) }
        laneCount = Set(entries.map(\.lane)).count
        order = entries.indices.sorted { left, right in
            let strengths = (entries[left].rssi ?? .min, entries[right].rssi ?? .min)
            return strengths.0 == strengths.1 ? left < right : strengths.0 > strengths.1
        }
    }

    /// True if no push runs and no further push can start.
    package var isFinished: Bool { (isHalted || order.isEmpty) && running == 0 }

    private var running: Int { devices.count { $0.state.holdsSlot || $0.state == .onTrial } }

    /// The number of further devices that may receive the image now; nil: any number, because the first devices are updated.
    private var freeFirstPlaces: Int? {
        guard updated < policy.first else { return nil }
        return policy.first - updated - devices.count { $0.state.isAdmitted }
    }

    /// Returns the devices whose pushes start now, and records these pushes as running.
    package mutating func start() -> [Int] {
        guard !isHalted else { return [] }
        var started: [Int] = []
        // If the push to one device may not start now, no push to a later device of its lane may start now.
        var full: Set<Lane> = []
        for index in order where !full.contains(devices[index].lane) {
            guard isWanted(devices[index]), hasSlot(devices[index].lane) else {
                full.insert(devices[index].lane)
                if full.count == laneCount { break }
                continue
            }
            devices[index].state = .connecting
            devices[index].isReached = false
            devices[index].attempts += 1
            started.append(index)
        }
        if !started.isEmpty { order.removeAll { devices[$0].state != .waiting } }
        return started
    }

    /// True if the push to the device may connect now. After the first devices are updated, each push may connect.
    ///
    /// Before this, only as many pushes connect as devices may receive the image. If a device cannot be reached, this limit ends, because a
    /// failed connection takes about a minute. Then only the slots of the lanes limit the number of connections. However, the push to a
    /// device that has already answered connects only if the device probably can receive the image.
    private func isWanted(_ device: Device) -> Bool {
        guard let free = freeFirstPlaces else { return true }
        guard free > 0 else { return false }
        if isSearchWide, !device.hasAnswered { return true }
        return devices.count { $0.state == .connecting && ($0.hasAnswered || !isSearchWide) } < free
    }

    private func hasSlot(_ lane: Lane) -> Bool {
        guard users(of: lane, \.holdsSlot) < limit(of: lane) else { return false }
        guard case .bluetooth = lane else { return true }
        // An adapter connects to one device after the other. A device on trial rolls back if it waits too long for its next link.
        let onTrial = users(of: lane) { $0 == .onTrial }
        return Self.confirmation * onTrial <= (shortestTrial ?? Self.usualTrial) / 2
    }

    private func users(of lane: Lane, _ include: (State) -> Bool) -> Int {
        devices.count { include($0.state) && $0.lane == lane }
    }

    /// Returns the number of devices that may use the lane at the same time.
    package func limit(of lane: Lane) -> Int { limits[lane] ?? policy.atOnce ?? lane.usualLimit }

    package func lane(of index: Int) -> Lane { devices[index].lane }

    // MARK: - Events

    /// Records the stage of the push to a device. Decides whether the push may make its first change on the device.
    ///
    /// - Returns: false if the push must end without a change: the first devices are not updated yet, or the queue has halted.
    package mutating func enter(_ stage: UpdateStage, _ index: Int) -> Bool {
        if stage >= .asking { devices[index].isReached = true }
        guard stage >= .sending else { return true }
        let isPermitted = !isHalted && freeFirstPlaces.map { $0 > 0 } ?? true
        guard isPermitted || devices[index].state.isAdmitted else {
            devices[index].state = .refused
            return false
        }
        devices[index].state = stage >= .marked ? .onTrial : .transferring
        return true
    }

    /// Records a failed attempt to connect to a device that has not answered yet.
    ///
    /// Lowers the limit of the lane by 1 if the connection failed while the adapter had links to other devices. The adapter may support
    /// fewer links than the limit.
    ///
    /// - Returns: the new limit of the device's lane; nil if the limit is not lowered.
    package mutating func connectionFailed(_ error: LinkError, of index: Int) -> Int? {
        isSearchWide = true
        let lane = devices[index].lane
        guard case .bluetooth = lane, error.code == .lost, !devices[index].hasLowered else { return nil }
        let links = devices.indices.count { other in
            other != index && devices[other].lane == lane && devices[other].state.holdsSlot && devices[other].isReached
        }
        guard links > 0, limit(of: lane) > 1 else { return nil }
        devices[index].hasLowered = true
        limits[lane] = limit(of: lane) - 1
        return limits[lane]
    }

    /// Records the end of the push to a device.
    package mutating func ended(_ index: Int, _ end: End) -> Next {
        if devices[index].state == .refused {
            holdBack(index)
            return .heldBack
        }
        devices[index].state = .ended
        switch end {
        case .updated(let trial):
            updated += 1
            if let trial, trial > .zero { shortestTrial = min(trial, shortestTrial ?? trial) }
        case .unreachable:
            isSearchWide = true
            let device = devices[index]
            guard !device.isReached, device.attempts < Self.attempts, !isHalted else { return .finished }
            devices[index].state = .waiting
            order.append(index)
            return .again
        case .lostTheImage: if !policy.keepsGoing { isHalted = true }
        // Another device would prove no more than this one. So a bad image could reach all devices, one after another.
        case .returned: if updated < policy.first, !policy.keepsGoing { isHalted = true }
        case .failed: break
        }
        return .finished
    }

    /// Puts a device in front of the devices that have not answered yet. The push that was not permitted does not count as an attempt.
    private mutating func holdBack(_ index: Int) {
        devices[index].state = .waiting
        devices[index].hasAnswered = true
        devices[index].attempts -= 1
        order.insert(index, at: order.prefix { devices[$0].hasAnswered }.count)
    }

    /// Prevents further pushes. The running pushes continue, but ``enter(_:_:)`` permits no first change from now on.
    package mutating func halt() { isHalted = true }
}

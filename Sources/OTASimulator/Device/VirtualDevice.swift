import COTADevice
import DescriptorIO
import OTAFirmware
public import OTAUpdate

/// A simulated device: the C device core with a virtual flash and a virtual bootloader.
///
/// It is independent of the link. A simulated radio or a real GATT server calls it for each received value, in order. The device calls the
/// closures of `observe` for each value to send.
///
/// Each call passes the time since the device was switched on. Time must not decrease. Timers that are due before that time fire first,
/// each at its own time.
///
/// The type is thread-safe. Its closures are called under its lock and must not call the device.
public final class VirtualDevice: @unchecked Sendable {
    public let configuration: VirtualDeviceConfiguration

    enum Power {
        /// Off or starting. The bootloader finishes at this time.
        case off(until: Duration)
        case on(DeviceCore)
        /// No slot contains a bootable image. This state is final.
        case unbootable
        case suspended
    }
    let lock = Lock()
    let flash: VirtualFlash
    var power = Power.off(until: .zero)
    var time = Duration.zero
    /// The time of the core's next poll; nil if no poll is needed before the next event.
    private var pollTime: Duration?
    private var connections: Set<UInt16> = []
    var identifications: [Int] = []
    var restarts = 0
    private var onNotification: @Sendable (UInt16, Channel, [UInt8]) -> Bool = { _, _, _ in true }
    private var onRestart: @Sendable () -> Void = {}

    /// The time from a restart or a power-up until the firmware runs.
    public static let bootTime: Duration = .milliseconds(800)

    /// Creates a device that is switched on at time zero.
    public init(_ configuration: VirtualDeviceConfiguration, flash: VirtualFlash) {
        self.configuration = configuration
        self.flash = flash
    }

    /// Sets the closures for notifications and restarts.
    ///
    /// - Parameters:
    ///   - onNotification: sends a notification to a connection. It returns false if no buffer is free; the device retries later.
    ///   - onRestart: is called after a restart, which ends all connections.
    public func observe(
        onNotification: @escaping @Sendable (_ connection: UInt16, _ channel: Channel, _ value: [UInt8]) -> Bool,
        onRestart: @escaping @Sendable () -> Void
    ) {
        lock.locked {
            self.onNotification = onNotification
            self.onRestart = onRestart
        }
    }

    // MARK: Events of the Bluetooth stack

    /// The characteristics in the device's GATT table, without the services that every device has.
    public var channels: Set<Channel> {
        let always: Set = [
            VirtualGATT.info, VirtualGATT.control, VirtualGATT.data, VirtualGATT.progress, VirtualGATT.version,
        ]
        return configuration.battery == nil ? always : always.union([VirtualGATT.battery])
    }

    /// Returns the earliest time for a connection, not before `now`; nil if the device can no longer be connected.
    public func reachable(at now: Duration) -> Duration? {
        lock.locked {
            advance(to: now)
            return switch power {
            case .on: time
            case .off(let end): end
            case .unbootable, .suspended: nil
            }
        }
    }

    /// Reports a new connection. Returns false if the device is off or has no space for another connection.
    public func connect(_ connection: UInt16, at now: Duration) -> Bool {
        lock.locked {
            advance(to: now)
            guard case .on(let core) = power, core.connected(connection, at: time) else { return false }
            connections.insert(connection)
            runPendingWork(core)
            return connections.contains(connection)
        }
    }

    /// Reports the end of a connection, after all its values. An unknown connection is ignored.
    public func disconnect(_ connection: UInt16, at now: Duration) {
        lock.locked {
            advance(to: now)
            guard case .on(let core) = power, connections.remove(connection) != nil else { return }
            core.disconnected(connection, at: time)
            runPendingWork(core)
        }
    }

    /// Returns whether a connection still exists. A restart ends all connections.
    public func isConnected(_ connection: UInt16) -> Bool { lock.locked { connections.contains(connection) } }

    /// Turns the notifications of a characteristic on or off.
    public func subscribe(
        _ connection: UInt16, to channel: Channel, on: Bool = true, at now: Duration
    ) throws(ATTError) {
        try lock.locked { () throws(ATTError) in
            let core = try core(of: connection, at: now)
            defer { runPendingWork(core) }
            switch channel {
            case VirtualGATT.control: core.subscribed(connection, OTA_CONTROL, on: on, at: time)
            case VirtualGATT.progress: core.subscribed(connection, OTA_PROGRESS, on: on, at: time)
            default: throw .attributeNotFound
            }
        }
    }

    /// Returns the bytes of a value from `offset`, at most `capacity`. Calls with increasing offsets form a long read.
    public func read(
        _ connection: UInt16, _ channel: Channel, offset: Int = 0, capacity: Int = 512, at now: Duration
    ) throws(ATTError) -> [UInt8] {
        try lock.locked { () throws(ATTError) in
            let core = try core(of: connection, at: now)
            func read(_ characteristic: ota_characteristic) throws(ATTError) -> [UInt8] {
                try core.read(connection, characteristic, offset: offset, capacity: capacity)
            }
            return switch channel {
            case VirtualGATT.info: try read(OTA_INFO)
            case VirtualGATT.progress: try read(OTA_PROGRESS)
            case VirtualGATT.version: try read(OTA_VERSION)
            case VirtualGATT.battery: try readBattery(offset: offset)
            case VirtualGATT.control, VirtualGATT.data: throw .readNotPermitted
            default: throw .attributeNotFound
            }
        }
    }

    /// Writes a value, with or without response. The device handles both in the same way; the link sends the response.
    public func write(
        _ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration
    ) throws(ATTError) {
        try lock.locked { () throws(ATTError) in
            let core = try core(of: connection, at: now)
            defer { runPendingWork(core) }
            switch channel {
            case VirtualGATT.data: core.writeData(connection, value, at: time)
            case VirtualGATT.control: try core.writeControl(connection, value, at: time)
            case VirtualGATT.info, VirtualGATT.progress, VirtualGATT.version, VirtualGATT.battery:
                throw .writeNotPermitted
            default: throw .attributeNotFound
            }
        }
    }

    /// Runs all work that is due. Call it also when the stack has free buffers for notifications again.
    ///
    /// - Returns: the latest time for the next call; nil if no call is needed before the next event.
    public func poll(at now: Duration) -> Duration? {
        lock.locked {
            advance(to: now)
            if case .on(let core) = power { runPendingWork(core) }
            return switch power {
            case .on: pollTime
            case .off(let end): end
            case .unbootable, .suspended: nil
            }
        }
    }

    // MARK: Power

    /// Interrupts the power for a moment, so that the device restarts.
    public func losePower(at now: Duration) {
        lock.locked {
            advance(to: now)
            if case .on = power { shutDown() }
        }
    }

    /// Suspends the device permanently before the normal end of its process.
    ///
    /// No time passes for the device until the next process opens it, so an image on trial may boot once more. A killed process is a power
    /// cut instead, which ends the trial.
    public func suspend() {
        lock.locked {
            if case .on(let core) = power, core.boot.isOnTrial { try? core.bootloader.renewTrial() }
            power = .suspended
            connections.removeAll()
        }
    }

    public func schedule(_ cuts: [PowerCut], worn: [Int]) -> Int {
        lock.locked { flash.schedule(cuts, worn: worn) }
    }

    public func schedule(_ faults: [FlashFault]) { lock.locked { flash.schedule(faults) } }

    // MARK: Functions for the core, called under the lock

    var batteryLevel: Int? { configuration.battery }

    func identify(seconds: Int) { identifications.append(seconds) }

    func notify(_ connection: UInt16, _ channel: Channel, _ value: [UInt8]) -> Bool {
        // Without power, no notification is sent, even if the core still runs because it has not detected the power cut.
        !flash.isPowered || onNotification(connection, channel, value)
    }

    // MARK: Private

    private func core(of connection: UInt16, at now: Duration) throws(ATTError) -> DeviceCore {
        advance(to: now)
        guard case .on(let core) = power, connections.contains(connection) else { throw .unlikely }
        return core
    }

    private func readBattery(offset: Int) throws(ATTError) -> [UInt8] {
        guard let batteryLevel else { throw .attributeNotFound }
        return offset == 0 ? [UInt8(clamping: batteryLevel)] : []
    }

    /// Advances the time to `now`. Runs boots and timers, each at its own time.
    private func advance(to now: Duration) {
        while true {
            switch power {
            case .off(let end) where end <= now:
                time = max(time, end)
                boot()
            case .on(let core):
                guard let due = pollTime, due <= now else {
                    time = max(time, now)
                    return
                }
                time = max(time, due)
                runPendingWork(core)
            case .off, .unbootable, .suspended:
                time = max(time, now)
                return
            }
        }
    }

    private func boot() {
        // If a power cut ended this boot, the next boot has power again.
        defer { flash.isPowered = true }
        do {
            guard let boot = try VirtualBootloader(flash: flash).boot(),
                let core = DeviceCore(configuration, boot: boot, flash: flash, owner: self, at: time)
            else {
                return flash.isPowered ? power = .unbootable : bootAgain()
            }
            power = .on(core)
            runPendingWork(core)
        } catch {
            bootAgain()
        }
    }

    /// Restarts after a power cut during a write of the bootloader.
    private func bootAgain() {
        power = .off(until: time + Self.bootTime)
        restarts += 1
    }

    /// Runs the core's immediate work, and shuts the device down after a power cut or a reboot request. Called after each call of the core.
    private func runPendingWork(_ core: DeviceCore) {
        for _ in 0..<Self.pollsAtOnce {
            guard flash.isPowered, !core.wantsReboot else { return shutDown() }
            let wait = core.poll(at: time)
            guard flash.isPowered, !core.wantsReboot else { return shutDown() }
            // The core's clock has a resolution of 1 ms.
            pollTime = wait.map { .milliseconds(time.milliseconds) + $0 }
            if wait != .zero { return }
        }
        pollTime = time + .milliseconds(1)
    }

    /// The maximum number of polls in one call. No single request needs so many, because one poll handles a flash page or 4 KiB.
    private static let pollsAtOnce = 100_000

    private func shutDown() {
        flash.isPowered = true
        power = .off(until: time + Self.bootTime)
        pollTime = nil
        connections.removeAll()
        restarts += 1
        onRestart()
    }
}

import COTADevice
import OTAFirmware
public import OTAUpdate

/// A device without hardware: the C device core over a virtual flash and a virtual bootloader.
///
/// It knows nothing of a link: whoever has one, a modelled radio or a real GATT server, calls it with what came, in the
/// order in which it came, and is called with what goes out. Time is handed in with each call, as the duration since the
/// device was switched on, and never runs backwards; timers that were due in between go off first, each at its own time.
/// Thread-safe; but its closures are called under its lock and must not call it.
public final class VirtualDevice: @unchecked Sendable {
    public let configuration: VirtualDeviceConfiguration

    enum Power {
        /// Switched off, or starting: the bootloader is through at this time.
        case off(until: Duration)
        case on(DeviceCore)
        /// Neither slot can be booted. It stays so.
        case unbootable
        case suspended
    }
    let lock = Lock()
    let flash: VirtualFlash
    var power = Power.off(until: .zero)
    var time = Duration.zero
    /// When the core wants to be polled; nil: not before something happens.
    private var pollTime: Duration?
    private var connections: Set<UInt16> = []
    var identifications: [Int] = []
    var restarts = 0
    private var onNotification: @Sendable (UInt16, Channel, [UInt8]) -> Bool = { _, _, _ in true }
    private var onRestart: @Sendable () -> Void = {}

    /// Time from a restart, or from the return of the power, until the firmware runs.
    public static let bootTime: Duration = .milliseconds(800)

    /// A device that is switched on at time zero.
    public init(_ configuration: VirtualDeviceConfiguration, flash: VirtualFlash) {
        self.configuration = configuration
        self.flash = flash
    }

    /// Sets who hears of it: a notification goes to a connection (false: no buffer now, offer it again), and a restart ends
    /// all connections.
    public func observe(
        onNotification: @escaping @Sendable (_ connection: UInt16, _ channel: Channel, _ value: [UInt8]) -> Bool,
        onRestart: @escaping @Sendable () -> Void
    ) {
        lock.locked {
            self.onNotification = onNotification
            self.onRestart = onRestart
        }
    }

    // MARK: What the Bluetooth stack delivers

    /// What it has in its GATT table, the services every device has left out.
    public var channels: Set<Channel> {
        let always: Set = [
            VirtualGATT.info, VirtualGATT.control, VirtualGATT.data, VirtualGATT.progress, VirtualGATT.version,
        ]
        return configuration.battery == nil ? always : always.union([VirtualGATT.battery])
    }

    /// When it can be connected: `now`, or later, or never (nil).
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

    /// A central has connected. False: there is nobody, or no room.
    public func connect(_ connection: UInt16, at now: Duration) -> Bool {
        lock.locked {
            advance(to: now)
            guard case .on(let core) = power, core.connected(connection, at: time) else { return false }
            connections.insert(connection)
            runPendingWork(core)
            return connections.contains(connection)
        }
    }

    /// The connection has ended, after all that came over it. An unknown one is no matter.
    public func disconnect(_ connection: UInt16, at now: Duration) {
        lock.locked {
            advance(to: now)
            guard case .on(let core) = power, connections.remove(connection) != nil else { return }
            core.disconnected(connection, at: time)
            runPendingWork(core)
        }
    }

    /// Whether this connection still exists: a restart ends it.
    public func isConnected(_ connection: UInt16) -> Bool { lock.locked { connections.contains(connection) } }

    /// The central turns notifications on or off.
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

    /// The value's bytes from `offset` on, at most `capacity`. Calls with rising offsets make a long read.
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

    /// A write, with response or without: a device handles both alike, but only one of them is answered.
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

    /// Lets it do what is due. Call it, too, when the stack has buffers for notifications again.
    ///
    /// - Returns: When to call it again at the latest; nil: not before something happens.
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

    /// The power goes, and comes back at once.
    public func losePower(at now: Duration) {
        lock.locked {
            advance(to: now)
            if case .on = power { shutDown() }
        }
    }

    /// Puts the device to sleep for good, as the process that models it ends in good order. For the device no time passes
    /// until the next process takes it up: an image on trial gets its one boot back. (A process that is killed is a power
    /// cut, and ends the trial.)
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

    // MARK: What the core asks for, under the lock already

    var batteryLevel: Int? { configuration.battery }

    func identify(seconds: Int) { identifications.append(seconds) }

    func notify(_ connection: UInt16, _ channel: Channel, _ value: [UInt8]) -> Bool {
        // Without power nothing goes out, whatever the core still does before it learns.
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

    /// Lets time pass: boots and timers, each at its own time.
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
        // Whatever power cut ended this boot: the next one has power again.
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

    /// The power went while the bootloader wrote; it comes back at once.
    private func bootAgain() {
        power = .off(until: time + Self.bootTime)
        restarts += 1
    }

    /// After each call of the core: lets it do what it wants to do at once, and sees whether it survived.
    private func runPendingWork(_ core: DeviceCore) {
        for _ in 0..<Self.pollsAtOnce {
            guard flash.isPowered, !core.wantsReboot else { return shutDown() }
            let wait = core.poll(at: time)
            guard flash.isPowered, !core.wantsReboot else { return shutDown() }
            // The core counts whole milliseconds.
            pollTime = wait.map { .milliseconds(time.milliseconds) + $0 }
            if wait != .zero { return }
        }
        pollTime = time + .milliseconds(1)
    }

    /// More than any single request takes: one poll handles a flash page or 4 KiB.
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

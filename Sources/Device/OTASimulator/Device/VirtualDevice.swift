import DescriptorIO
public import OTAUpdate

/// A virtual device: firmware with a virtual flash and a virtual bootloader. There are two variants: ``VirtualDevice`` for the GATT OTA
/// profile, and ``VirtualSMPDevice`` for SMP.
///
/// A simulated radio, or a server for a real transport, calls the device for each received value, in order. The device calls the closures
/// of `observe` for each notification and each restart.
///
/// In each call, `now` is the time since the device's first power-up, and must not decrease. The device first runs each timer that is due
/// by `now`. A timer runs at the time at which the timer was due, not at `now`.
///
/// The type is thread-safe. The device calls the closures of `observe` while the device's lock is held, so these closures must not call the
/// device.
public final class VirtualDeviceOf<Firmware: VirtualFirmware>: SimulatedDevice, @unchecked Sendable {
    public let configuration: Firmware.Configuration

    enum Power {
        /// The device has no power or is booting. The firmware runs from the time `until` on.
        case off(until: Duration)
        case on(Firmware)
        /// The firmware cannot boot, for example because no slot contains a bootable image. The device never leaves this state.
        case unbootable
        case suspended
    }
    private let lock = Lock()
    let flash: VirtualFlash
    private let memory: Firmware.Memory
    private var power = Power.off(until: .zero)
    private var time = Duration.zero
    private var connections: Set<UInt16> = []
    private var restarts = 0
    private var onNotification: @Sendable (UInt16, Channel, [UInt8]) -> Bool = { _, _, _ in true }
    private var onRestart: @Sendable () -> Void = {}

    /// The time from a restart or a power cut until the firmware runs. A swap of the images takes additional time.
    public static var bootTime: Duration { OTASimulator.bootTime }

    /// Creates a device that is switched on at time zero. The first boot takes no time.
    package init(_ configuration: Firmware.Configuration, flash: VirtualFlash, memory: Firmware.Memory) {
        self.configuration = configuration
        self.flash = flash
        self.memory = memory
    }

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

    public var channels: Set<Channel> { Firmware.channels(configuration) }
    public var dataChannel: Channel { Firmware.dataChannel }

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

    public var programName: String? { Firmware.programName(configuration) }

    public func place(at now: Duration) -> ProgramPlace? {
        // The time of a device with one program does not advance, so that this call changes nothing.
        guard programName != nil else { return .ownAddress }
        return lock.locked { () -> ProgramPlace? in
            advance(to: now)
            guard case .on(let firmware) = power else { return nil }
            return firmware.place
        }
    }

    public func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool {
        lock.locked {
            advance(to: now)
            guard case .on(let firmware) = power,
                firmware.connect(connection, valueLength: valueLength, at: time)
            else { return false }
            connections.insert(connection)
            run(firmware)
            return connections.contains(connection)
        }
    }

    public func updateLink(_ connection: UInt16, valueLength: Int) {
        lock.locked {
            if case .on(let firmware) = power { firmware.updateLink(connection, valueLength: valueLength) }
        }
    }

    public func disconnect(_ connection: UInt16, at now: Duration) {
        lock.locked {
            advance(to: now)
            guard case .on(let firmware) = power, connections.remove(connection) != nil else { return }
            firmware.disconnect(connection, at: time)
            run(firmware)
        }
    }

    public func isConnected(_ connection: UInt16) -> Bool { lock.locked { connections.contains(connection) } }

    public func subscribe(
        _ connection: UInt16, to channel: Channel, on: Bool = true, at now: Duration
    ) throws(ATTError) {
        try lock.locked { () throws(ATTError) in
            let firmware = try firmware(of: connection, at: now)
            defer { run(firmware) }
            try firmware.subscribe(connection, to: channel, on: on, at: time)
        }
    }

    public func read(
        _ connection: UInt16, _ channel: Channel, offset: Int = 0, capacity: Int = 512, at now: Duration
    ) throws(ATTError) -> [UInt8] {
        try lock.locked { () throws(ATTError) in
            try firmware(of: connection, at: now).read(connection, channel, offset: offset, capacity: capacity)
        }
    }

    /// Writes a value to a characteristic. The device handles a write with response and a write without response in the same way. The
    /// caller sends the response.
    public func write(
        _ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration
    ) throws(ATTError) {
        try lock.locked { () throws(ATTError) in
            let firmware = try firmware(of: connection, at: now)
            defer { run(firmware) }
            try firmware.write(connection, channel, value, at: time)
        }
    }

    /// Runs all work that is due at `now`. If the Bluetooth stack has refused a notification, also call this function when the stack has a
    /// free buffer again.
    ///
    /// - Returns: the time at which the caller must call this function again. An earlier call is allowed. Nil if no call is needed before
    ///   the next event.
    public func poll(at now: Duration) -> Duration? {
        lock.locked {
            advance(to: now)
            if case .on(let firmware) = power {
                firmware.sendWaiting()
                run(firmware)
            }
            return switch power {
            case .on(let firmware): firmware.due
            case .off(let end): end
            case .unbootable, .suspended: nil
            }
        }
    }

    // MARK: Power

    public func losePower(at now: Duration) {
        lock.locked {
            advance(to: now)
            if case .on = power { shutDown() }
        }
    }

    /// Stops the device for the rest of this process. Call this function before the process ends normally.
    ///
    /// The device boots again when the next process opens the device. Without `suspend`, this boot would roll back an image on trial, as
    /// after a power cut. Therefore `suspend` allows an image on trial to boot on trial once more.
    public func suspend() {
        lock.locked {
            if case .on(let firmware) = power, firmware.booted.isOnTrial {
                try? VirtualBootloader(flash: flash).renewTrial()
            }
            power = .suspended
            connections.removeAll()
        }
    }

    public func schedule(_ cuts: [PowerCut], worn: [Int]) -> Int {
        lock.locked { flash.schedule(cuts, worn: worn) }
    }

    public func schedule(_ faults: [FlashFault]) { lock.locked { flash.schedule(faults) } }

    // MARK: Private

    private func firmware(of connection: UInt16, at now: Duration) throws(ATTError) -> Firmware {
        advance(to: now)
        guard case .on(let firmware) = power, connections.contains(connection) else { throw .unlikely }
        return firmware
    }

    /// Advances the device's time to `now`. Performs each boot and each timer of the firmware that is due by `now`, in the order of the due
    /// times.
    private func advance(to now: Duration) {
        while true {
            switch power {
            case .off(let end) where end <= now:
                time = max(time, end)
                boot()
            case .on(let firmware):
                guard let due = firmware.due, due <= now else {
                    time = max(time, now)
                    return
                }
                time = max(time, due)
                run(firmware)
            case .off, .unbootable, .suspended:
                time = max(time, now)
                return
            }
        }
    }

    private func boot() {
        // If a power cut interrupts this boot, the power returns before the next boot.
        defer { flash.isPowered = true }
        do throws(FlashError) {
            // `unowned` is safe, because only the device owns the firmware. The firmware is deallocated with the device, and cannot call
            // this closure later.
            let firmware = try Firmware.boot(configuration, memory, flash: flash, at: time) { [unowned self] in
                onNotification($0, $1, $2)
            }
            guard let firmware else { return flash.isPowered ? power = .unbootable : bootAgain() }
            power = .on(firmware)
            run(firmware)
        } catch {
            bootAgain()
        }
    }

    /// Restarts the device after a power cut or a failed flash operation during a boot.
    private func bootAgain() {
        power = .off(until: time + Self.bootTime)
        restarts += 1
    }

    private func run(_ firmware: Firmware) {
        if !firmware.run(at: time) { shutDown() }
    }

    private func shutDown() {
        flash.isPowered = true
        power = .off(until: time + Self.bootTime + Firmware.extraBootTime(configuration, flash: flash))
        connections.removeAll()
        restarts += 1
        onRestart()
    }
}

/// Properties for tests and for status messages. Any thread may read them at any time.
extension VirtualDeviceOf {
    /// The latest time that a caller passed to the device, measured from the device's first power-up.
    public var now: Duration { lock.locked { time } }

    public var flashOperationCount: Int { lock.locked { flash.operationCount } }
    /// The number of violations by the firmware (see ``FlashError``). Correct firmware causes no violation.
    public var flashViolationCount: Int { lock.locked { flash.violationCount } }
    /// The number of restarts so far, including restarts after a power cut.
    public var restartCount: Int { lock.locked { restarts } }
    public var identifyRequests: [Int] { withMemory { Firmware.identifyRequests($0) } }

    /// True if the firmware loader runs in place of the application.
    public var runsLoader: Bool { withFirmware { $0.runsLoader } ?? false }

    public var isUnbootable: Bool {
        lock.locked { if case .unbootable = power { true } else { false } }
    }

    /// The bootloader's state in the flash; nil if the flash contains no valid boot record.
    public var bootState: BootState? { lock.locked { VirtualBootloader(flash: flash).state } }

    /// The running image. Nil if the device is off, booting, unbootable or suspended.
    public var running: VirtualBootloader.Boot? { withFirmware { $0.booted } }

    /// The bytes of the running image. Nil if no image runs or the flash cannot be read.
    public var runningImage: [UInt8]? {
        withFirmware { firmware in
            firmware.runningImageLength.flatMap { length in
                try? flash.withBytes(at: flash.layout.slot(firmware.booted.slot), count: length) { Array($0) }
            }
        }
    }

    /// The bytes of the image that is marked for a trial at the next boot. Nil if no trial is pending or the flash cannot be read.
    public var markedImage: [UInt8]? { lock.locked { VirtualBootloader(flash: flash).markedImage } }

    public var imageReception: (offset: Int, size: Int)? { withFirmware { $0.imageReception } }

    /// Calls `body` with the firmware while the lock is held. If the firmware does not run, returns nil and does not call `body`.
    func withFirmware<Result>(_ body: (Firmware) -> Result?) -> Result? {
        lock.locked { if case .on(let firmware) = power { body(firmware) } else { nil } }
    }

    /// Calls `body` with the firmware's memory while the lock is held.
    func withMemory<Result>(_ body: (Firmware.Memory) -> Result) -> Result { lock.locked { body(memory) } }
}

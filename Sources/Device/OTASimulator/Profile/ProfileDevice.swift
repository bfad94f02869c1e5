import COTADevice
public import OTAFirmware
public import OTAUpdate

/// A virtual device with the GATT OTA profile. It runs the C device core (``DeviceCore``).
public typealias VirtualDevice = VirtualDeviceOf<DeviceCore>

extension VirtualDevice {
    /// Creates a device that is switched on at time zero, with the contents of `flash`.
    public convenience init(_ configuration: VirtualDeviceConfiguration, flash: VirtualFlash) {
        self.init(configuration, flash: flash, memory: DeviceCore.Memory())
    }

    /// Creates a new device with a factory image. The device's flash exists only in memory.
    ///
    /// - Throws: `badConfiguration`, or `io` if a flash operation fails.
    public convenience init(
        _ configuration: VirtualDeviceConfiguration, version: SemanticVersion, securityCounter: UInt32 = 0
    ) throws(VirtualDeviceError) {
        try configuration.validate()
        let flash = VirtualFlash(layout: configuration.layout)
        do {
            try Self.fillFromFactory(flash, configuration, version, securityCounter)
        } catch {
            throw VirtualDeviceError(.io, "an operation of the flash in memory failed: \(error)")
        }
        self.init(configuration, flash: flash)
    }

    /// Writes the factory image to the erased flash of a new device. The factory image has no manifest, because it does not come from a
    /// bundle.
    static func fillFromFactory(
        _ flash: VirtualFlash, _ configuration: VirtualDeviceConfiguration, _ version: SemanticVersion,
        _ securityCounter: UInt32
    ) throws(FlashError) {
        let image = Array("factory firmware of \(configuration.product.text), version \(version.text)\n".utf8)
        try VirtualBootloader(flash: flash).install(image, version: version, securityCounter: securityCounter)
    }

    /// The partly received image in the core's newest record, if an update could resume it. The values are the digest of the image's
    /// manifest, and the recorded bytes in the slot. A later update with the same manifest resumes after these bytes.
    ///
    /// Nil if the device does not run, if the flash cannot be read, or if the core has no record that an update could resume.
    public var recordedImage: (manifest: SHA256Digest, bytes: [UInt8])? {
        withFirmware { core in
            guard let (manifest, size) = core.record else { return nil }
            return (try? flash.withBytes(at: core.downloadSlot, count: size) { Array($0) }).map { (manifest, $0) }
        }
    }

    /// Reports a new connection whose values have at most 20 bytes. All notifications of the profile fit in 20 bytes. Returns false if the
    /// device is off or has no space for another connection.
    public func connect(_ connection: UInt16, at now: Duration) -> Bool {
        connect(connection, valueLength: 20, at: now)
    }
}

extension DeviceCore: VirtualFirmware {
    /// The part of the state that a restart does not reset.
    public final class Memory {
        /// The duration of each IDENTIFY request so far, in seconds.
        var identifications: [Int] = []
    }

    public static var dataChannel: Channel { VirtualGATT.data }

    public static func channels(_ configuration: VirtualDeviceConfiguration) -> Set<Channel> {
        let always: Set = [
            VirtualGATT.info, VirtualGATT.control, VirtualGATT.data, VirtualGATT.progress, VirtualGATT.version,
        ]
        return configuration.battery == nil ? always : always.union([VirtualGATT.battery])
    }

    public static func boot(
        _ configuration: VirtualDeviceConfiguration, _ memory: Memory, flash: VirtualFlash, at now: Duration,
        send: @escaping (UInt16, Channel, [UInt8]) -> Bool
    ) throws(FlashError) -> DeviceCore? {
        // If the core refuses the keys of an image on trial, or if the image contains the text of an image that hangs, the firmware cannot
        // run. A watchdog then restarts the device, and the bootloader starts the old image.
        for _ in 1...2 {
            guard let boot = try VirtualBootloader(flash: flash).boot() else { return nil }
            let slot = flash.layout.slot(boot.slot)
            if boot.isOnTrial, try flash.withBytes(at: slot, count: boot.image.size, { FirmwareKeys.hangs($0) }) {
                continue
            }
            let core = DeviceCore(configuration, memory, boot: boot, flash: flash, at: now, send: send)
            if let core { return core }
        }
        return nil
    }

    public static func identifyRequests(_ memory: Memory) -> [Int] { memory.identifications }

    public var runningImageLength: Int? { booted.image.size }
    public var due: Duration? { queue.isEmpty ? pollTime.map { max($0, busyUntil) } : busyUntil }

    public func run(at now: Duration) -> Bool {
        // A power cut in a write switches the device off immediately, although the thread is busy for the time of this write.
        guard flash.isPowered else { return false }
        guard now >= busyUntil else { return true }
        var isRunning = usingFlash(at: now) { runPolls(at: now) }
        while isRunning, busyUntil <= now, let next = nextWrite() {
            try? handle(next, at: now)
            isRunning = usingFlash(at: now) { runPolls(at: now) }
        }
        return isRunning
    }

    private func runPolls(at now: Duration) -> Bool {
        for _ in 0..<Self.pollsAtOnce {
            guard flash.isPowered, !wantsReboot else { return false }
            let wait = poll(at: now)
            guard flash.isPowered, !wantsReboot else { return false }
            // The core rounds `now` down to whole milliseconds, so `wait` counts from a whole millisecond.
            pollTime = wait.map { .milliseconds(now.milliseconds) + $0 }
            if wait != .zero { return true }
        }
        pollTime = now + .milliseconds(1)
        return true
    }

    /// The maximum number of polls in one call of `run`. The limit prevents an endless loop. If `run` reaches the limit, the device
    /// continues 1 ms later.
    ///
    /// The limit is much higher than the number of polls in a normal update. For example, the verification of an image of 2 MiB in pages of
    /// 4 KiB takes 512 polls.
    private static var pollsAtOnce: Int { 100_000 }

    public func connect(_ connection: UInt16, valueLength: Int, at now: Duration) -> Bool {
        handleQueue(at: now)
        return connected(connection, at: now)
    }

    public func disconnect(_ connection: UInt16, at now: Duration) {
        handleQueue(at: now)
        disconnected(connection, at: now)
    }

    public func subscribe(_ connection: UInt16, to channel: Channel, on: Bool, at now: Duration) throws(ATTError) {
        handleQueue(at: now)
        switch channel {
        case VirtualGATT.control: subscribed(connection, OTA_CONTROL, on: on, at: now)
        case VirtualGATT.progress: subscribed(connection, OTA_PROGRESS, on: on, at: now)
        default: throw .attributeNotFound
        }
    }

    public func read(
        _ connection: UInt16, _ channel: Channel, offset: Int, capacity: Int
    ) throws(ATTError) -> [UInt8] {
        func read(_ characteristic: ota_characteristic) throws(ATTError) -> [UInt8] {
            try self.read(connection, characteristic, offset: offset, capacity: capacity)
        }
        switch channel {
        case VirtualGATT.info: return try read(OTA_INFO)
        case VirtualGATT.progress: return try read(OTA_PROGRESS)
        case VirtualGATT.version: return try read(OTA_VERSION)
        case VirtualGATT.battery:
            guard let level = configuration.battery else { throw .attributeNotFound }
            return offset == 0 ? [UInt8(clamping: level)] : []
        case VirtualGATT.control, VirtualGATT.data: throw .readNotPermitted
        default: throw .attributeNotFound
        }
    }

    public func write(
        _ connection: UInt16, _ channel: Channel, _ value: [UInt8], at now: Duration
    ) throws(ATTError) {
        switch channel {
        case VirtualGATT.data, VirtualGATT.control:
            let write = ReceivedWrite(connection: connection, channel: channel, value: value, arrival: now)
            if busyUntil > now || !queue.isEmpty { return enqueue(write) }
            try handle(write, at: now)
        case VirtualGATT.info, VirtualGATT.progress, VirtualGATT.version, VirtualGATT.battery: throw .writeNotPermitted
        default: throw .attributeNotFound
        }
    }
}

/// The simulation of the queue, and of the time that flash operations and Data values take. If `VirtualDeviceConfiguration.flashSpeed` is
/// nil and `chunkTime` is zero, no operation takes time and the queue stays empty.
extension DeviceCore {
    /// A value that the host has written to the characteristic Data or Control.
    struct ReceivedWrite {
        var connection: UInt16
        var channel: Channel
        var value: [UInt8]
        var arrival: Duration
    }

    private func enqueue(_ write: ReceivedWrite) {
        if write.channel == VirtualGATT.data {
            if let length = configuration.queueLength, queuedChunks >= length { return }
            queuedChunks += 1
        }
        queue.append(write)
    }

    /// Removes the first write from the queue.
    private func nextWrite() -> ReceivedWrite? {
        guard let next = queue.first else { return nil }
        queue.removeFirst()
        if next.channel == VirtualGATT.data { queuedChunks -= 1 }
        return next
    }

    private func handle(_ write: ReceivedWrite, at now: Duration) throws(ATTError) {
        let start = max(busyUntil, write.arrival)
        defer {
            if write.channel == VirtualGATT.data { busyUntil = max(busyUntil, start + configuration.chunkTime) }
        }
        try usingFlash(at: now) { () throws(ATTError) in
            if write.channel == VirtualGATT.data {
                writeData(write.connection, write.value, at: now)
            } else {
                try writeControl(write.connection, write.value, at: now)
            }
        }
    }

    /// Handles all queued writes immediately, and makes the flash busy for the sum of their times. The device calls this function before it
    /// handles a change of a connection, because the queued writes arrived before the change.
    private func handleQueue(at now: Duration) {
        while let next = nextWrite() { try? handle(next, at: now) }
    }

    /// Calls `body` and counts the bytes that `body` writes to the flash. After the call, the flash is busy for the time that these writes
    /// take.
    private func usingFlash<Result, Failure>(
        at now: Duration, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let before = flash.writtenByteCount
        defer {
            let count = flash.writtenByteCount - before
            if let speed = configuration.flashSpeed, count > 0 {
                busyUntil = max(busyUntil, now) + .nanoseconds(count * 1_000_000_000 / speed)
            }
        }
        return try body()
    }
}

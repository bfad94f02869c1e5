import COTADevice
import OTAFirmware
import OTASigning
import OTAUpdate

/// The device core (the C code of the target `COTADevice`) during one boot of a virtual device. This class contains the configuration and
/// the callbacks of the core.
///
/// `VirtualDevice` calls this class for each event of the Bluetooth stack. The core calls the callbacks, which are in the last extension.
/// All times are measured from the first power-up of the device.
public final class DeviceCore {
    let flash: VirtualFlash
    let bootloader: VirtualBootloader
    public let booted: VirtualBootloader.Boot
    /// The trusted keys: those in the running image, or else those of the configuration.
    let keys: [PublicKey]
    /// The offset in bytes of the slot that does not contain the running image. The core writes the new image to this slot.
    var downloadSlot: Int { flash.layout.slot(1 - booted.slot) }
    let configuration: VirtualDeviceConfiguration
    private let memory: Memory
    private let send: (UInt16, Channel, [UInt8]) -> Bool

    /// Whether the core has requested a reboot. `VirtualDevice` does not call the core after the request.
    var wantsReboot = false
    /// The device's queue: the writes that arrived while the device's thread was busy.
    var queue = Fifo<ReceivedWrite>()
    /// The number of Data values in `queue`.
    var queuedChunks = 0
    /// The time until which the device's thread is busy.
    var busyUntil = Duration.zero
    /// The time of the next poll. Nil if no poll is needed before the next event of the Bluetooth stack.
    var pollTime: Duration?
    var hash = SHA256()

    private let device = UnsafeMutablePointer<ota_device>.allocate(capacity: 1)
    private let config = UnsafeMutablePointer<ota_config>.allocate(capacity: 1)
    private let port = UnsafeMutablePointer<ota_port>.allocate(capacity: 1)
    private let page: UnsafeMutablePointer<UInt8>
    private let envelope: UnsafeMutablePointer<UInt8>
    private let decoder = UnsafeMutablePointer<ota_decoder>.allocate(capacity: 1)
    private var texts: [UnsafeMutablePointer<UInt8>] = []

    /// Starts the core. Returns nil if the core refuses the configuration.
    init?(
        _ configuration: VirtualDeviceConfiguration, _ memory: Memory, boot: VirtualBootloader.Boot,
        flash: VirtualFlash,
        at now: Duration, send: @escaping (UInt16, Channel, [UInt8]) -> Bool
    ) {
        self.flash = flash
        self.bootloader = VirtualBootloader(flash: flash)
        self.booted = boot
        let firmwareKeys: [PublicKey]? = try? flash.withBytes(at: flash.layout.slot(boot.slot), count: boot.image.size)
        {
            FirmwareKeys.keys(in: $0)
        }
        self.keys = firmwareKeys ?? configuration.trustedKeys
        self.configuration = configuration
        self.memory = memory
        self.send = send
        self.page = .allocate(capacity: flash.layout.pageSize)
        page.initialize(repeating: 0, count: flash.layout.pageSize)
        self.envelope = .allocate(capacity: configuration.largestEnvelope)
        envelope.initialize(repeating: 0, count: configuration.largestEnvelope)
        device.initialize(to: ota_device())
        config.initialize(to: ota_config())
        decoder.initialize(to: ota_decoder())
        port.initialize(to: Self.callbacks(hasBattery: configuration.battery != nil))
        fill(configuration)
        let context = Unmanaged.passUnretained(self).toOpaque()
        let error = ota_device_start(device, config, port, context, page, Self.milliseconds(now))
        // `OTA_START_FLASH` means that the core could not read its records. The core has started, but cannot resume an update.
        guard error == OTA_START_OK || error == OTA_START_FLASH else { return nil }
    }

    deinit {
        texts.forEach { $0.deallocate() }
        page.deallocate()
        envelope.deallocate()
        port.deallocate()
        decoder.deallocate()
        config.deallocate()
        device.deallocate()
    }

    private func fill(_ configuration: VirtualDeviceConfiguration) {
        let layout = configuration.layout
        config.pointee.product = text(configuration.product.text)
        config.pointee.version = text(booted.image.version)
        config.pointee.key_ids = UnsafePointer(keep(keys.flatMap(\.id.bytes)))
        config.pointee.key_algorithms = UnsafePointer(keep(keys.map(\.algorithm.rawValue)))
        config.pointee.key_count = UInt8(clamping: keys.count)
        config.pointee.envelope = envelope
        config.pointee.largest_envelope = UInt16(clamping: configuration.largestEnvelope)
        config.pointee.required_signatures = UInt8(clamping: configuration.requiredSignatures)
        config.pointee.required_algorithms = configuration.requiredAlgorithms.reduce(0) { $0 | 1 << $1.rawValue }
        config.pointee.largest_counter_step = configuration.largestCounterStep
        config.pointee.running_digest = booted.image.manifestDigest.map { UnsafePointer(keep($0.bytes)) }
        config.pointee.security_counter = booted.permanentCounter
        config.pointee.trial_security_counter = booted.image.securityCounter
        config.pointee.on_trial = booted.isOnTrial
        config.pointee.image_format = configuration.imageFormat?.rawValue ?? UInt8(OTA_FORMAT_ANY.rawValue)
        config.pointee.hardware = configuration.hardware
        config.pointee.longest_data = UInt16(clamping: configuration.longestData)
        config.pointee.window = UInt16(clamping: configuration.window)
        config.pointee.restart_seconds = UInt16(clamping: configuration.restartSeconds)
        config.pointee.trial_seconds = UInt16(clamping: configuration.trialSeconds)
        config.pointee.page_size = UInt32(clamping: layout.pageSize)
        config.pointee.slot_size = UInt32(clamping: layout.slotSize)
        config.pointee.write_unit = UInt8(clamping: layout.writeUnit)
        config.pointee.largest_image = ota_largest_image(config)
        config.pointee.decoder = configuration.offersEncodings ? decoder : nil
        config.pointee.base_size = configuration.offersBase ? config.pointee.largest_image : 0
        config.pointee.wear_minutes = configuration.limitsWear ? 0 : UInt8(OTA_WEAR_UNLIMITED)
    }

    /// Returns a copy of `bytes`. The C core keeps the pointer, so the copy exists until this object is deallocated.
    private func keep(_ bytes: [UInt8]) -> UnsafeMutablePointer<UInt8> {
        let copy = UnsafeMutablePointer<UInt8>.allocate(capacity: bytes.count)
        copy.initialize(from: bytes, count: bytes.count)
        texts.append(copy)
        return copy
    }

    private func text(_ text: String) -> UnsafePointer<CChar> {
        UnsafeRawPointer(keep(Array(text.utf8) + [0])).assumingMemoryBound(to: CChar.self)
    }

    /// Converts a time to the core's clock. The core's clock counts milliseconds and wraps at 2^32 ms (49.7 days).
    private static func milliseconds(_ time: Duration) -> UInt32 { UInt32(truncatingIfNeeded: time.milliseconds) }
}

// MARK: Events of the Bluetooth stack

extension DeviceCore {
    /// Reports a new connection to the core. Returns false if the core has no space for another connection.
    func connected(_ connection: UInt16, at now: Duration) -> Bool {
        ota_device_connected(device, connection, Self.milliseconds(now))
    }

    func disconnected(_ connection: UInt16, at now: Duration) {
        ota_device_disconnected(device, connection, Self.milliseconds(now))
    }

    func subscribed(_ connection: UInt16, _ characteristic: ota_characteristic, on: Bool, at now: Duration) {
        ota_device_subscribed(device, connection, characteristic, on, Self.milliseconds(now))
    }

    func writeControl(_ connection: UInt16, _ bytes: [UInt8], at now: Duration) throws(ATTError) {
        let count = UInt16(clamping: bytes.count)
        try Self.check(ota_device_write_control(device, connection, bytes, count, Self.milliseconds(now)))
    }

    func writeData(_ connection: UInt16, _ bytes: [UInt8], at now: Duration) {
        ota_device_write_data(device, connection, bytes, UInt16(clamping: bytes.count), Self.milliseconds(now))
    }

    func read(
        _ connection: UInt16, _ characteristic: ota_characteristic, offset: Int, capacity: Int
    ) throws(ATTError) -> [UInt8] {
        var error = OTA_ATT_OK
        let bytes = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
            var read: UInt16 = 0
            error = ota_device_read(
                device, connection, characteristic, UInt16(clamping: offset), buffer.baseAddress,
                UInt16(clamping: capacity), &read)
            count = error == OTA_ATT_OK ? Int(read) : 0
        }
        try Self.check(error)
        return bytes
    }

    /// Runs one poll of the core.
    ///
    /// - Returns: the time until the next poll. Zero means that the next poll is due immediately. Nil means that no poll is needed before
    ///   the next event of the Bluetooth stack.
    func poll(at now: Duration) -> Duration? {
        let wait = ota_device_poll(device, Self.milliseconds(now))
        return wait == UInt32.max ? nil : .milliseconds(Int64(wait))
    }

    /// The offset and the size of the image that the core is receiving, in bytes. Nil if no image transfer is active.
    public var imageReception: (offset: Int, size: Int)? {
        guard ota_device_state(device) == OTA_STATE_IMAGE else { return nil }
        return (Int(device.pointee.held_offset), Int(device.pointee.object_size))
    }

    /// The partly received image in the core's newest record, if an update could resume it. The values are the digest of the image's
    /// manifest, and the number of image bytes that are in the slot according to the record.
    ///
    /// Nil if the core has no record of an image. After a complete update, the newest record still describes the installed image. Therefore
    /// the value is also nil if an image runs on trial, or if the record describes the running image.
    var record: (manifest: SHA256Digest, size: Int)? {
        let manifest = withUnsafeBytes(of: device.pointee.held_digest) { SHA256Digest(bytes: $0) }
        let size = Int(device.pointee.held_recorded)
        guard let manifest, size > 0, !booted.isOnTrial, manifest != booted.image.manifestDigest else { return nil }
        return (manifest, size)
    }

    private static func check(_ error: ota_att_error) throws(ATTError) {
        guard error == OTA_ATT_OK else { throw ATTError(code: UInt8(truncatingIfNeeded: error.rawValue)) }
    }
}

/// The callbacks of the core: flash, SHA-256, signatures, notifications, bootloader.
extension DeviceCore {
    static func callbacks(hasBattery: Bool) -> ota_port {
        var port = ota_port()
        port.read = { DeviceCore.of($0).read($1, $2, $3, $4) }
        port.write = { DeviceCore.of($0).write($1, $2, $3, $4) }
        port.erase = { DeviceCore.of($0).erase($1, $2) }
        port.hash_start = { DeviceCore.of($0).hash = SHA256() }
        port.hash_update = { DeviceCore.of($0).hash.update(UnsafeRawBufferPointer(start: $1, count: Int($2))) }
        port.hash_finish = { DeviceCore.of($0).finishHash(into: $1) }
        port.verify = { DeviceCore.of($0).verify($1, $3, $4, $5, $6) }
        port.notify = { DeviceCore.of($0).notify($1, $2, $3, $4) }
        port.mark = { DeviceCore.of($0).mark($1, $2) }
        port.confirm = { context, _, _ in DeviceCore.of(context).confirm() }
        // No action is needed, because the next boot without `confirm` rolls back.
        port.roll_back = { _ in }
        port.reboot = { DeviceCore.of($0).wantsReboot = true }
        if hasBattery { port.battery = { DeviceCore.of($0).batteryLevel() } }
        port.identify = { DeviceCore.of($0).memory.identifications.append(Int($1)) }
        return port
    }

    /// Returns the `DeviceCore` for a context pointer. The C core passes the pointer unchanged. The pointer is valid, because the
    /// `DeviceCore` exists longer than the C core.
    private static func of(_ context: UnsafeMutableRawPointer?) -> DeviceCore {
        guard let context else { preconditionFailure("the device core passed no context") }
        return Unmanaged<DeviceCore>.fromOpaque(context).takeUnretainedValue()
    }

    private func offset(_ area: ota_area, _ offset: UInt32) -> Int {
        let start =
            switch area {
            case OTA_AREA_SLOT: downloadSlot
            case OTA_AREA_BASE: flash.layout.slot(booted.slot)
            default: flash.layout.coreRecords
            }
        return start + Int(offset)
    }

    private func read(_ area: ota_area, _ offset: UInt32, _ bytes: UnsafeMutablePointer<UInt8>?, _ count: UInt32)
        -> Bool
    {
        let buffer = UnsafeMutableRawBufferPointer(start: bytes, count: Int(count))
        return Self.succeeds { () throws(FlashError) in try flash.read(at: self.offset(area, offset), into: buffer) }
    }

    private func write(_ area: ota_area, _ offset: UInt32, _ bytes: UnsafePointer<UInt8>?, _ count: UInt32) -> Bool {
        let new = UnsafeRawBufferPointer(start: bytes, count: Int(count))
        return Self.succeeds { () throws(FlashError) in try flash.program(new, at: self.offset(area, offset)) }
    }

    private func erase(_ area: ota_area, _ offset: UInt32) -> Bool {
        Self.succeeds { () throws(FlashError) in try flash.erasePage(at: self.offset(area, offset)) }
    }

    private func finishHash(into digest: UnsafeMutablePointer<UInt8>?) -> Bool {
        let bytes = hash.finish().bytes
        // A finished `SHA256` accepts no more data, so the next calculation needs a new object.
        hash = SHA256()
        digest?.update(from: bytes, count: bytes.count)
        return digest != nil
    }

    private func verify(
        _ key: UInt8, _ message: UnsafePointer<UInt8>?, _ count: UInt32, _ signature: UnsafePointer<UInt8>?,
        _ signatureSize: UInt32
    ) -> Bool {
        guard Int(key) < keys.count else { return false }
        let message = Array(UnsafeBufferPointer(start: message, count: Int(count)))
        let signature = Array(UnsafeBufferPointer(start: signature, count: Int(signatureSize)))
        return (try? keys[Int(key)].verify(signature: signature, message: message, in: .bundle)) ?? false
    }

    private func notify(
        _ connection: UInt16, _ characteristic: ota_characteristic, _ bytes: UnsafePointer<UInt8>?, _ count: UInt16
    ) -> Bool {
        let channel = characteristic == OTA_CONTROL ? VirtualGATT.control : VirtualGATT.progress
        // After a power cut during a flash operation, the core still runs until the end of the current call. The device sends no
        // notification without power. The return value is true, so that the core does not retry the notification.
        return !flash.isPowered
            || send(connection, channel, Array(UnsafeBufferPointer(start: bytes, count: Int(count))))
    }

    private func mark(_ boot: ota_boot, _ manifest: UnsafePointer<ota_manifest>?) -> Bool {
        guard let manifest = manifest?.pointee,
            let digest = SHA256Digest(bytes: UnsafeBufferPointer(start: manifest.image_digest, count: 32))
        else { return false }
        let version = UnsafeRawBufferPointer(start: manifest.version, count: Int(manifest.version_size))
        let image = BootImage(
            version: String(decoding: version, as: UTF8.self), securityCounter: manifest.security_counter,
            manifestDigest: SHA256Digest(bytes: UnsafeBufferPointer(start: manifest.digest, count: 32)),
            size: Int(manifest.image_size), digest: digest)
        return Self.succeeds { () throws(FlashError) in
            try bootloader.mark(image, forGood: boot == OTA_BOOT_PERMANENT)
        }
    }

    private func confirm() -> Bool { Self.succeeds { () throws(FlashError) in try bootloader.confirm() } }

    private func batteryLevel() -> UInt8 {
        configuration.battery.map { UInt8(clamping: $0) } ?? UInt8(OTA_NO_BATTERY)
    }

    private static func succeeds(_ operation: () throws(FlashError) -> Void) -> Bool {
        do {
            try operation()
            return true
        } catch {
            return false
        }
    }
}

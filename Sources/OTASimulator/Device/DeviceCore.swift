import COTADevice
import OTAFirmware
import OTASigning
import OTAUpdate

/// The C device core during one boot, with its configuration and its functions.
///
/// Its owner passes the events of the Bluetooth stack to it. `DeviceCore+Port.swift` contains the functions that the core calls. Times are
/// measured from the first power-up of the device.
final class DeviceCore {
    let flash: VirtualFlash
    let bootloader: VirtualBootloader
    let boot: VirtualBootloader.Boot
    let keys: [PublicKey]
    /// The offset in bytes of the slot without the running image. The core writes the new image there.
    var downloadSlot: Int { flash.layout.slot(1 - boot.slot) }
    unowned let owner: VirtualDevice

    /// Whether the core requested a reboot. The owner then stops calling it.
    var wantsReboot = false
    var hash = SHA256()

    private let device = UnsafeMutablePointer<ota_device>.allocate(capacity: 1)
    private let config = UnsafeMutablePointer<ota_config>.allocate(capacity: 1)
    private let port = UnsafeMutablePointer<ota_port>.allocate(capacity: 1)
    private let page: UnsafeMutablePointer<UInt8>
    private var texts: [UnsafeMutablePointer<UInt8>] = []

    /// Starts the core. Returns nil if the core refuses the configuration.
    init?(
        _ configuration: VirtualDeviceConfiguration, boot: VirtualBootloader.Boot, flash: VirtualFlash,
        owner: VirtualDevice, at now: Duration
    ) {
        self.flash = flash
        self.bootloader = VirtualBootloader(flash: flash)
        self.boot = boot
        self.keys = configuration.trustedKeys
        self.owner = owner
        self.page = .allocate(capacity: flash.layout.pageSize)
        page.initialize(repeating: 0, count: flash.layout.pageSize)
        device.initialize(to: ota_device())
        config.initialize(to: ota_config())
        port.initialize(to: Self.callbacks(hasBattery: configuration.battery != nil))
        fill(configuration)
        let context = Unmanaged.passUnretained(self).toOpaque()
        let error = ota_device_start(device, config, port, context, page, Self.milliseconds(now))
        // After a failure to read its records, the core works, but it cannot resume an update.
        guard error == OTA_START_OK || error == OTA_START_FLASH else { return nil }
    }

    deinit {
        texts.forEach { $0.deallocate() }
        page.deallocate()
        port.deallocate()
        config.deallocate()
        device.deallocate()
    }

    private func fill(_ configuration: VirtualDeviceConfiguration) {
        let layout = configuration.layout
        config.pointee.product = text(configuration.product.text)
        config.pointee.version = text(boot.image.version)
        config.pointee.key_ids = UnsafePointer(keep(keys.flatMap(\.id.bytes)))
        config.pointee.key_count = UInt8(clamping: keys.count)
        config.pointee.running_digest = boot.image.manifestDigest.map { UnsafePointer(keep($0.bytes)) }
        config.pointee.security_counter = boot.permanentCounter
        config.pointee.trial_security_counter = boot.image.securityCounter
        config.pointee.on_trial = boot.isOnTrial
        config.pointee.image_format = configuration.imageFormat.rawValue
        config.pointee.hardware = configuration.hardware
        config.pointee.longest_data = UInt16(clamping: configuration.longestData)
        config.pointee.window = UInt16(clamping: configuration.window)
        config.pointee.restart_seconds = UInt16(clamping: configuration.restartSeconds)
        config.pointee.trial_seconds = UInt16(clamping: configuration.trialSeconds)
        config.pointee.page_size = UInt32(clamping: layout.pageSize)
        config.pointee.slot_size = UInt32(clamping: layout.slotSize)
        config.pointee.write_unit = UInt8(clamping: layout.writeUnit)
        config.pointee.largest_image = ota_largest_image(config)
        config.pointee.wear_minutes = configuration.limitsWear ? 0 : UInt8(OTA_WEAR_UNLIMITED)
    }

    /// Returns a copy that lives as long as this object.
    private func keep(_ bytes: [UInt8]) -> UnsafeMutablePointer<UInt8> {
        let copy = UnsafeMutablePointer<UInt8>.allocate(capacity: bytes.count)
        copy.initialize(from: bytes, count: bytes.count)
        texts.append(copy)
        return copy
    }

    private func text(_ text: String) -> UnsafePointer<CChar> {
        UnsafeRawPointer(keep(Array(text.utf8) + [0])).assumingMemoryBound(to: CChar.self)
    }

    /// Converts a time to the core's clock, which wraps at 2^32 ms.
    private static func milliseconds(_ time: Duration) -> UInt32 { UInt32(truncatingIfNeeded: time.milliseconds) }
}

// MARK: Events of the Bluetooth stack

extension DeviceCore {
    /// Reports a new connection. Returns false if the core has no space for another connection.
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

    /// Runs due work. Returns the time until the next poll; zero means at once, nil means that no poll is needed.
    func poll(at now: Duration) -> Duration? {
        let wait = ota_device_poll(device, Self.milliseconds(now))
        return wait == UInt32.max ? nil : .milliseconds(Int64(wait))
    }

    /// The offset and the size of the image in reception, in bytes; nil if the core receives none.
    var imageReception: (offset: Int, size: Int)? {
        guard ota_device_state(device) == OTA_STATE_IMAGE else { return nil }
        return (Int(device.pointee.object_offset), Int(device.pointee.object_size))
    }

    /// The partially received image in the core's record: the digest of its manifest and the number of bytes. Nil if there is no usable
    /// record, for example because that image already runs.
    var record: (manifest: SHA256Digest, size: Int)? {
        let manifest = withUnsafeBytes(of: device.pointee.held_digest) { SHA256Digest(bytes: $0) }
        let size = Int(device.pointee.held_recorded)
        guard let manifest, size > 0, !boot.isOnTrial, manifest != boot.image.manifestDigest else { return nil }
        return (manifest, size)
    }

    private static func check(_ error: ota_att_error) throws(ATTError) {
        guard error == OTA_ATT_OK else { throw ATTError(code: UInt8(truncatingIfNeeded: error.rawValue)) }
    }
}

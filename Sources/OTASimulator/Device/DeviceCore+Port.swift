import COTADevice
import OTAFirmware
import OTASigning

/// The functions that the core calls: flash, SHA-256, signatures, notifications, the bootloader.
extension DeviceCore {
    static func callbacks(hasBattery: Bool) -> ota_port {
        var port = ota_port()
        port.read = { DeviceCore.of($0).read($1, $2, $3, $4) }
        port.write = { DeviceCore.of($0).write($1, $2, $3, $4) }
        port.erase = { DeviceCore.of($0).erase($1, $2) }
        port.hash_start = { DeviceCore.of($0).hash = SHA256() }
        port.hash_update = { DeviceCore.of($0).hash.update(UnsafeRawBufferPointer(start: $1, count: Int($2))) }
        port.hash_finish = { DeviceCore.of($0).finishHash(into: $1) }
        port.verify = { DeviceCore.of($0).verify($1, $2, $3, $4) }
        port.notify = { DeviceCore.of($0).notify($1, $2, $3, $4) }
        port.mark = { DeviceCore.of($0).mark($1, $2) }
        port.confirm = { context, _, _ in DeviceCore.of(context).confirm() }
        // Nothing to do: any boot without `confirm` rolls back.
        port.roll_back = { _ in }
        port.reboot = { DeviceCore.of($0).wantsReboot = true }
        if hasBattery { port.battery = { DeviceCore.of($0).batteryLevel() } }
        port.identify = { DeviceCore.of($0).owner.identify(seconds: Int($1)) }
        return port
    }

    /// Returns the `DeviceCore` of a context pointer. The core passes its context unchanged, and this object outlives the core.
    private static func of(_ context: UnsafeMutableRawPointer?) -> DeviceCore {
        guard let context else { preconditionFailure("the device core passed no context") }
        return Unmanaged<DeviceCore>.fromOpaque(context).takeUnretainedValue()
    }

    private func offset(_ area: ota_area, _ offset: UInt32) -> Int {
        (area == OTA_AREA_SLOT ? downloadSlot : flash.layout.coreRecords) + Int(offset)
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
        // A finished hash accepts no more data.
        hash = SHA256()
        digest?.update(from: bytes, count: bytes.count)
        return digest != nil
    }

    private func verify(
        _ key: UInt8, _ message: UnsafePointer<UInt8>?, _ count: UInt32, _ signature: UnsafePointer<UInt8>?
    ) -> Bool {
        guard Int(key) < keys.count else { return false }
        let message = Array(UnsafeBufferPointer(start: message, count: Int(count)))
        let signature = Array(UnsafeBufferPointer(start: signature, count: Int(OTA_SIGNATURE_SIZE)))
        return keys[Int(key)].verify(signature: signature, message: message)
    }

    private func notify(
        _ connection: UInt16, _ characteristic: ota_characteristic, _ bytes: UnsafePointer<UInt8>?, _ count: UInt16
    ) -> Bool {
        let channel = characteristic == OTA_CONTROL ? VirtualGATT.control : VirtualGATT.progress
        return owner.notify(connection, channel, Array(UnsafeBufferPointer(start: bytes, count: Int(count))))
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

    private func batteryLevel() -> UInt8 { owner.batteryLevel.map { UInt8(clamping: $0) } ?? UInt8(OTA_NO_BATTERY) }

    private static func succeeds(_ operation: () throws(FlashError) -> Void) -> Bool {
        do {
            try operation()
            return true
        } catch {
            return false
        }
    }
}

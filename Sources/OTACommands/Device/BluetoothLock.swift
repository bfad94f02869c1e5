import BlueZ
import SystemPackage

/// The lock of a Bluetooth device. It is acquired when the device is found, before the first connection. Without the lock, a
/// second otaflash would end the link of the first.
actor BluetoothLock {
    private let invocation: Invocation
    private var lock: DeviceLock?
    /// The failure to lock the device; nil: no failure.
    private(set) var failure: Failure?
    /// The device that was found; nil: none yet.
    private(set) var device: BluetoothDevice?

    init(_ invocation: Invocation) { self.invocation = invocation }

    /// Locks the device until this object is freed.
    ///
    /// - Throws: `acquiredElsewhere` if the device cannot be locked; `failure` has the reason.
    func take(_ found: BluetoothDevice) throws(BlueZError) {
        // A device can report its name later, or another name after the first connection. The first reported name is kept.
        if device?.name == nil { device = found }
        guard lock == nil else { return }
        do throws(Failure) {
            lock = try DeviceLock(try Self.file(for: found), in: invocation)
        } catch {
            failure = error
            throw BlueZError(.acquiredElsewhere, error.message)
        }
    }

    private static func file(for device: BluetoothDevice) throws(Failure) -> FilePath {
        try DeviceLock.file("ble-\(device.address.description.filter { $0 != ":" })")
    }
}

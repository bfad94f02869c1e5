import BlueZ
import SystemPackage

/// The lock of a Bluetooth device, taken as soon as it is known which one that is, and before anything is done to it: a second
/// otaflash would end the link of the first.
actor BluetoothLock {
    private let invocation: Invocation
    private var lock: DeviceLock?
    /// Why the device could not be had, for the user.
    private(set) var failure: Failure?
    /// What was found; nil: nothing yet.
    private(set) var device: BluetoothDevice?

    init(_ invocation: Invocation) { self.invocation = invocation }

    /// Keeps the lock as long as this lives.
    func take(_ found: BluetoothDevice) throws(BlueZError) {
        // One that was seen without its name is not without one; and once it was connected it may have another.
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

/// What is asked of a connection.
public struct ConnectionRequest: Sendable {
    public var target: DeviceTarget
    /// Such as `hci1`; nil: the first one that is powered.
    public var adapter: String?
    /// What the device is expected to have, one of them at least: where none is there, or one is missing that it advertised,
    /// bluetoothd's memory of it is stale, and made anew.
    public var services: Set<BluetoothUUID>
    /// What to do with a link that somebody else has made: end it first, for one's own use of the device, or share it. A link
    /// that is shared is left as it was.
    public var takesOver: Bool
    /// Has bluetoothd read the device's attributes anew, which ends a bond.
    public var refreshesCache: Bool
    /// Asked of the device that was found, before anything is done to it; what it throws ends the attempt.
    public var admits: (@Sendable (BluetoothDevice) async throws(BlueZError) -> Void)?
    /// Waiting, scanning, connecting and discovering have this long each.
    package var limit = Duration.seconds(10)
    /// Whether bluetoothd and the adapter were there before, so that it makes sense to wait for them.
    package var waitsForAdapter = false

    public init(
        _ target: DeviceTarget, adapter: String? = nil, services: Set<BluetoothUUID> = [], takesOver: Bool = false,
        refreshesCache: Bool = false, admits: (@Sendable (BluetoothDevice) async throws(BlueZError) -> Void)? = nil
    ) {
        self.target = target
        self.adapter = adapter
        self.services = services
        self.takesOver = takesOver
        self.refreshesCache = refreshesCache
        self.admits = admits
    }
}

/// The parameters of a connection.
public struct ConnectionRequest: Sendable {
    public var target: DeviceTarget
    /// The name of the adapter to use, such as `hci1`; nil for the first powered adapter.
    public var adapter: String?
    /// The services that the device should have. This library uses them to detect an old attribute table in bluetoothd's cache. A
    /// table counts as old in two cases:
    ///
    /// - The table does not contain one of these services, although the device advertised this service.
    /// - The table contains none of these services, and bluetoothd knew services of the device before the connection.
    ///
    /// If the table is old, this library removes the device from bluetoothd once and connects again, so that bluetoothd reads a new
    /// table. Exceptions: this library does not remove a paired device, or a device with a link of another program. A missing
    /// service is not an error.
    public var services: Set<BluetoothUUID>
    /// True to end another program's link to the device, so that only this program uses the device. If false, this program shares a
    /// link that exists already. A shared link stays connected when this program ends its use of the link.
    public var takesOver: Bool
    /// True to remove the device from bluetoothd before the connection, so that bluetoothd reads the device's attributes again. This
    /// library does not remove a paired device, because the removal would delete the bond.
    public var refreshesCache: Bool
    /// Checks the found device before this library connects to the device; nil to accept every device. If this function throws an error,
    /// the connection attempt fails with this error.
    public var admits: (@Sendable (BluetoothDevice) async throws(BlueZError) -> Void)?
    /// The time limit of each step. The steps are: wait for the adapter, scan, end an earlier link, connect, discover the services.
    package var limit = Duration.seconds(10)
    /// Returns true if this attempt is urgent. An urgent attempt connects before the waiting attempts of this program that are not
    /// urgent (``TurnQueue``). If the function is nil, this attempt is not urgent.
    package var isUrgent: (@Sendable () -> Bool)?
    /// True to connect only to a device that a scan has heard. Without a scan, a device that does not advertise would keep the adapter for
    /// the time `limit`. Exceptions: a connected device, and a paired device, which may advertise only to this machine.
    package var hearsFirst = false
    /// True to wait until bluetoothd runs and the adapter is powered. `BlueZClient` sets the value to true if the adapter has been
    /// powered before, because such an adapter probably becomes available again.
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

/// Selects the device to connect to.
public enum DeviceTarget: Sendable, Hashable {
    case address(BluetoothAddress)
    /// The only device in range with this name. The name can be the device's own name or the device's alias on this machine.
    case name(String)
    /// The only device in range that advertises one of these services.
    case only(services: Set<BluetoothUUID>)

    public static func only(service: BluetoothUUID) -> DeviceTarget { .only(services: [service]) }

    func matches(_ device: BluetoothDevice) -> Bool {
        switch self {
        case .address(let address): device.address == address
        case .name(let name): device.isCalled(name)
        case .only(let services): !services.isDisjoint(with: device.serviceUUIDs)
        }
    }
}

extension DeviceTarget: CustomStringConvertible {
    public var description: String {
        switch self {
        case .address(let address): address.description
        case .name(let name): "a device named “\(name)”"
        case .only(let services):
            "a device with the service \(services.map(\.description).sorted().joined(separator: " or "))"
        }
    }
}
